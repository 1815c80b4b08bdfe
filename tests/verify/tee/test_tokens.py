"""NVIDIA attestation tokens: the ones that hold, and every way in which one does not."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from docs.examples.made_up_intel import AT, NOW, key

from k3_ledger.schemas.errors import PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Outcome, Position
from k3_ledger.verify.tee.tokens import MAX_BYTES, check_tokens, load_keys
from tests.verify.tee.tokens import DEVICE, answer, b64url, claims, key_set, token

DIGEST = bytes(range(32))


def checked(given: Any, at: int = AT, keys: bytes | None = None, digest: bytes = DIGEST) -> tuple[Outcome, set[Code]]:
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    outcome, findings = check_tokens(data, load_keys(keys or key_set()), at, digest, Position(source="t"))
    assert {finding.position.source for finding in findings} <= {"t"}
    return outcome, {finding.code for finding in findings}


@pytest.mark.parametrize("certificate", [False, True])
def test_tokens_that_hold_pass(certificate: bool) -> None:
    assert checked(answer(DIGEST), keys=key_set(certificate=certificate)) == (Outcome.PASS, set())
    assert checked(answer(DIGEST, device={"measres": "comparison-successful"})) == (Outcome.PASS, set())


LIVE = {"iat": AT + 1800, "nbf": AT + 1800, "exp": AT + 5400}
"""A token that was asked for when the run had ended, half an hour after it began."""


@pytest.mark.parametrize(
    ("period", "begun", "otherwise"),
    [
        (LIVE, True, False),
        ({**LIVE, "nbf": AT + 1700}, True, False),
        ({"iat": AT - 9, "nbf": AT - 9, "exp": AT}, True, True),
        ({"iat": AT - 9, "nbf": AT - 9, "exp": AT - 1}, False, False),
        ({"iat": AT + 9, "nbf": AT + 9, "exp": AT + 8}, False, False),
    ],
    ids=["live", "dated back", "ends as the run begins", "ended before the run", "no period"],
)
@pytest.mark.parametrize("which", ["overall", "device"])
def test_a_token_is_asked_for_when_the_run_has_ended(
    period: dict[str, int], begun: bool, otherwise: bool, which: str
) -> None:
    data = json.dumps(answer(DIGEST, **{which: period})).encode()
    for judged, holds in ((True, begun), (False, otherwise)):
        outcome, findings = check_tokens(data, load_keys(key_set()), AT, DIGEST, begun=judged)
        assert (outcome, {one.code for one in findings}) == (
            (Outcome.PASS, set()) if holds else (Outcome.FAIL, {Code.TOKEN_EXPIRED})
        )


def test_a_token_to_a_nonce_that_is_no_receipt_s_digest_binds_nothing() -> None:
    """A tool that picks a nonce by itself gives a token that is genuine, fresh, and about no receipt."""
    for nonce in (bytes(32), DIGEST[::-1], b"a live nonce of 32 random bytes!"):
        assert checked(answer(nonce, overall=LIVE, device=LIVE), at=AT + 1800) == (Outcome.FAIL, {Code.TOKEN_BINDING})
    for spelled in (DIGEST.hex().upper(), "0x" + DIGEST.hex(), [DIGEST.hex()]):
        given = answer(DIGEST, device={"eat_nonce": spelled})
        assert checked(given) == (Outcome.FAIL, {Code.TOKEN_BINDING})


def test_a_token_without_a_beginning_begins_when_it_was_issued() -> None:
    given = answer(DIGEST, overall={"nbf": AT - 5})
    assert checked(given)[0] is Outcome.PASS
    one = claims(DIGEST)
    del one["nbf"]
    assert one["iat"] <= AT


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"overall": {"x-nvidia-overall-att-result": False}}, Code.TOKEN_REFUSED),
        ({"overall": {"x-nvidia-overall-att-result": "true"}}, Code.TOKEN_REFUSED),
        ({"device": {"measres": "failure"}}, Code.TOKEN_REFUSED),
        ({"overall": {"submods": {}}}, Code.TOKEN_SIGNATURE),
        ({"overall": {"eat_nonce": "00" * 32}}, Code.TOKEN_BINDING),
        ({"device": {"eat_nonce": None}}, Code.TOKEN_BINDING),
        ({"overall": {"eat_nonce": DIGEST.hex().upper()}}, Code.TOKEN_BINDING),
        ({"device": {"eat_nonce": DIGEST.hex().upper()}}, Code.TOKEN_BINDING),
        ({"device": {"eat_nonce": DIGEST.hex() + " "}}, Code.TOKEN_BINDING),
        ({"device": {"eat_nonce": DIGEST.hex() + "00"}}, Code.TOKEN_BINDING),
        ({"device": {"eat_nonce": [DIGEST.hex()]}}, Code.TOKEN_BINDING),
        ({"overall": {"exp": AT - 1}}, Code.TOKEN_EXPIRED),
        ({"device": {"nbf": AT + 1}}, Code.TOKEN_EXPIRED),
        ({"device": {"exp": "never"}}, Code.TOKEN_EXPIRED),
        ({"device": {"nbf": None}}, Code.TOKEN_EXPIRED),
        ({"signer": key(32, ec.SECP384R1())}, Code.TOKEN_SIGNATURE),
        ({"device": {"exp": 10**400}}, Code.TOKEN_EXPIRED),
        ({"device": {"exp": 253_402_300_800}}, Code.TOKEN_EXPIRED),
        ({"device": {"nbf": True}}, Code.TOKEN_EXPIRED),
        ({"overall": {"nbf": -1}}, Code.TOKEN_EXPIRED),
        ({"crit": ["exp"]}, Code.TOKEN_MALFORMED),
        ({"crit": []}, Code.TOKEN_MALFORMED),
        ({"alg": "none"}, Code.TOKEN_MALFORMED),
        ({"alg": "HS256"}, Code.TOKEN_MALFORMED),
    ],
)
def test_tokens_that_do_not_hold_fail(how: dict[str, Any], code: Code) -> None:
    assert checked(answer(DIGEST, **how)) == (Outcome.FAIL, {code})


@pytest.mark.parametrize("where", [0, 1])
def test_a_name_that_stands_twice_in_a_token_is_malformed(where: int) -> None:
    """The second one counts for this reader, the first for others."""
    parts = GOOD.split(".")
    twice = base64.urlsafe_b64decode(parts[where] + "==").replace(b"{", b'{"alg":"none","exp":1,', 1)
    parts[where] = b64url(twice)
    data = json.dumps([["JWT", ".".join(parts)], {"GPU-0": GOOD}]).encode()
    assert checked(data) == (Outcome.FAIL, {Code.TOKEN_MALFORMED})
    [_, [overall], devices] = [0, [answer(DIGEST)[0][1]], answer(DIGEST)[1]]
    name, value = next(iter(devices.items()))
    doubled = json.dumps([["JWT", overall], devices]).replace(f'"{name}": ', f'"{name}": "x", "{name}": ', 1)
    assert value in doubled
    assert checked(doubled.encode()) == (Outcome.FAIL, {Code.TOKEN_MALFORMED})


def test_tokens_of_another_receipt_fail() -> None:
    assert checked(answer(DIGEST), digest=bytes(32)) == (Outcome.FAIL, {Code.TOKEN_BINDING})


def test_a_device_left_out_or_added_shows() -> None:
    whole = answer(DIGEST)
    fewer = [whole[0], {"GPU-0": whole[1]["GPU-0"]}]
    more = [whole[0], whole[1] | {"GPU-2": whole[1]["GPU-0"]}]
    for given in (fewer, more):
        assert checked(given) == (Outcome.FAIL, {Code.TOKEN_SIGNATURE})


def test_a_device_called_overall_hides_nothing() -> None:
    refused = answer(DIGEST, overall={"x-nvidia-overall-att-result": False}, names=("overall",))
    assert checked(refused) == (Outcome.FAIL, {Code.TOKEN_REFUSED})


CHAIN = "x-nvidia-gpu-attestation-report-cert-chain"
REFUSED = [
    {"measres": "fail"},
    {"measres": None},
    {"measres": ["success"]},
    {"secboot": False},
    {"secboot": "true"},
    {"secboot": 1},
    {"dbgstat": "enabled"},
    {"dbgstat": ["disabled"]},
    {"dbgstat": 0},
    *(
        {f"x-nvidia-{name}": False}
        for name in (
            "gpu-arch-check",
            "switch-arch-check",
            "gpu-attestation-report-nonce-match",
            "gpu-attestation-report-signature-verified",
            "gpu-attestation-report-parsed",
            "gpu-attestation-report-cert-chain-validated",
            "gpu-attestation-report-cert-chain-fwid-match",
            "gpu-driver-rim-fetched",
            "gpu-driver-rim-schema-validated",
            "gpu-driver-rim-cert-validated",
            "gpu-driver-rim-signature-verified",
            "gpu-driver-rim-version-match",
            "gpu-driver-rim-measurements-available",
            "gpu-vbios-index-no-conflict",
        )
    ),
    {"x-nvidia-gpu-attestation-report-nonce-match": "true"},
    {"x-nvidia-gpu-attestation-report-nonce-match": 1},
    {"x-nvidia-cert-status": "revoked"},
    {"x-nvidia-cert-ocsp-status": "revoked"},
    {CHAIN: {"x-nvidia-cert-status": "revoked"}},
    {CHAIN: {"x-nvidia-cert-status": "expired", "x-nvidia-cert-ocsp-status": "good"}},
    {CHAIN: {"x-nvidia-cert-status": "valid", "x-nvidia-cert-ocsp-status": "revoked"}},
    {"x-nvidia-gpu-vbios-rim-cert-chain": {"x-nvidia-cert-ocsp-status": "unknown"}},
    {"x-nvidia-mismatch-measurement-records": [{"index": 7}]},
    {"x-nvidia-mismatch-measurement-records": {"index": 7}},
]


@pytest.mark.parametrize("device", REFUSED, ids=str)
def test_what_a_token_itself_calls_wrong_does_not_pass_for_its_summary(device: dict[str, Any]) -> None:
    """A GPU in debug mode, and one whose certificate was revoked, can have the published measurements."""
    assert checked(answer(DIGEST, device=device)) == (Outcome.FAIL, {Code.TOKEN_REFUSED})


@pytest.mark.parametrize(
    "device",
    [
        *({"dbgstat": f"disabled-{how}"} for how in ("since-boot", "permanently", "fully-and-permanently")),
        {"x-nvidia-gpu-driver-rim-version-match": None},
        {"x-nvidia-gpu-vbios-index-conflict": False},
        {"x-nvidia-cert-ocsp-nonce-matches": False},
        {"vendor-check": False},
        {"x-nvidia-mismatch-measurement-records": []},
        {CHAIN: {"x-nvidia-cert-status": "valid", "x-nvidia-cert-ocsp-status": None}},
        {CHAIN: {}},
        {CHAIN: "a text"},
    ],
    ids=str,
)
def test_what_says_nothing_of_a_failure_refuses_nobody(device: dict[str, Any]) -> None:
    assert checked(answer(DIGEST, device=device)) == (Outcome.PASS, set())


@pytest.mark.parametrize("silent", ["secboot", "dbgstat"])
def test_a_device_that_is_silent_about_debugging_is_not_checked(silent: str) -> None:
    assert checked(answer(DIGEST, device={silent: None})) == (Outcome.NOT_CHECKED, {Code.TOKEN_UNSTATED})
    both = answer(DIGEST, device={silent: None, "measres": "fail"})
    assert checked(both) == (Outcome.FAIL, {Code.TOKEN_REFUSED, Code.TOKEN_UNSTATED})


def mixed(overall: dict[str, Any] | None = None, unknown: str = "GPU-1", **device: Any) -> list[Any]:
    """An answer whose tokens are signed under the key that the auditor holds, but for one."""
    said = {**DEVICE, **device}
    devices = {
        name: token(claims(DIGEST, **said), kid="unknown" if name == unknown else "made-up-1")
        for name in ("GPU-0", "GPU-1")
    }
    submods = {name: ["DIGEST", ["SHA-256", sha256(text.encode()).hexdigest()]] for name, text in devices.items()}
    top = claims(DIGEST, **{"x-nvidia-overall-att-result": True, "submods": submods, **(overall or {})})
    return [["JWT", token(top, kid="unknown" if unknown == "overall" else "made-up-1")], devices]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"overall": {"x-nvidia-overall-att-result": False}}, Code.TOKEN_REFUSED),
        ({"overall": {"exp": AT - 1}}, Code.TOKEN_EXPIRED),
        ({"overall": {"eat_nonce": "00" * 32}}, Code.TOKEN_BINDING),
        ({"overall": {"submods": {}}}, Code.TOKEN_SIGNATURE),
        ({"measres": "fail"}, Code.TOKEN_REFUSED),
        ({"measres": "fail", "unknown": "GPU-0"}, Code.TOKEN_REFUSED),
        ({"measres": "fail", "unknown": "overall"}, Code.TOKEN_REFUSED),
        ({"dbgstat": "enabled", "unknown": "overall"}, Code.TOKEN_REFUSED),
        ({"eat_nonce": "00" * 32, "unknown": "overall"}, Code.TOKEN_BINDING),
    ],
)
def test_a_token_that_nobody_can_check_hides_no_false_one(how: dict[str, Any], code: Code) -> None:
    assert checked(mixed(**how)) == (Outcome.FAIL, {code, Code.TOKEN_NO_KEY})


@pytest.mark.parametrize("how", ["changed", "malformed"])
def test_a_token_that_nobody_can_check_hides_no_damage(how: str) -> None:
    given = mixed(overall={"submods": {}}, unknown="overall")  # whatever the overall token says of digests is open
    good = given[1]["GPU-0"]
    given[1]["GPU-0"] = good[:-2] + ("AA" if good[-2:] != "AA" else "BA") if how == "changed" else "a.b"
    outcome, found = checked(given)
    assert outcome is Outcome.FAIL
    assert found > {Code.TOKEN_NO_KEY}
    assert found <= {Code.TOKEN_NO_KEY, Code.TOKEN_SIGNATURE, Code.TOKEN_MALFORMED}


@pytest.mark.parametrize("unknown", ["overall", "GPU-0", "GPU-1"])
def test_one_token_that_nobody_can_check_leaves_the_answer_open(unknown: str) -> None:
    assert checked(mixed(unknown=unknown)) == (Outcome.NOT_CHECKED, {Code.TOKEN_NO_KEY})


def test_a_key_that_is_not_there_is_named_once() -> None:
    data = json.dumps(answer(DIGEST, kid="made-up-2")).encode()
    assert len(check_tokens(data, load_keys(key_set()), AT, DIGEST)[1]) == 1


def test_without_the_key_of_its_name_a_token_is_not_checked() -> None:
    assert checked(answer(DIGEST, kid="made-up-2")) == (Outcome.NOT_CHECKED, {Code.TOKEN_NO_KEY})


GOOD = token(claims(DIGEST, **DEVICE))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[",
        b"{}",
        b"[" * 100_000,
        b" " * (MAX_BYTES + 1),
        json.dumps([["JWT", GOOD], {}]).encode(),
        json.dumps([["JWT", GOOD], {"GPU-0": 7}]).encode(),
        json.dumps([["CWT", GOOD], {"GPU-0": GOOD}]).encode(),
        json.dumps([["JWT", "a.b"], {"GPU-0": GOOD}]).encode(),
        json.dumps([["JWT", GOOD + "="], {"GPU-0": GOOD}]).encode(),
        json.dumps([["JWT", GOOD[:-1] + "\u00e9"], {"GPU-0": GOOD}]).encode(),
        json.dumps([["JWT", ".".join(["W10", *GOOD.split(".")[1:]])], {"GPU-0": GOOD}]).encode(),
        json.dumps([["JWT", ".".join([GOOD.split(".")[0], "W10", GOOD.split(".")[2]])], {"GPU-0": GOOD}]).encode(),
        json.dumps([["JWT", ".".join([*GOOD.split(".")[:2], "AAAA"])], {"GPU-0": GOOD}]).encode(),
        json.dumps([["JWT", ".".join([*GOOD.split(".")[:2], "AB"])], {"GPU-0": GOOD}]).encode(),
        json.dumps([["JWT", f"{b64url(b'{}')}.{GOOD.partition('.')[2]}"], {"GPU-0": GOOD}]).encode(),
    ],
    ids=range(16),
)  # fmt: skip
def test_what_is_no_token_is_malformed(data: bytes) -> None:
    assert checked(data) == (Outcome.FAIL, {Code.TOKEN_MALFORMED})


def other_certificate() -> str:
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    private = key(33)
    made = x509.CertificateBuilder(named, named, private.public_key(), 7, NOW, NOW.replace(year=2030)).sign(
        private, SHA256()
    )
    return base64.b64encode(made.public_bytes(Encoding.DER)).decode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":[7]}',
        b'{"keys":[{"kty":"EC"}]}',
        key_set(x="AA", y="AA"),
        key_set(x=7),
        key_set(certificate=True, x5c=["%%"]),
        key_set(certificate=True, x5c=[other_certificate()]),
    ],
    ids=range(9),
)
def test_what_is_no_set_of_keys_is_refused(data: bytes) -> None:
    with pytest.raises(PolicyError) as caught:
        load_keys(data)
    assert caught.value.finding.position.source == "nvidia-jwks.json"


def test_keys_of_other_kinds_are_left_out() -> None:
    assert set(load_keys(key_set())) == {"made-up-1"}
    assert load_keys(b'{"keys":[{"kty":"EC","crv":"P-256","kid":"a"}]}') == {}


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        (bytes.fromhex("a003020102"), bytes.fromhex("a003020109")),
        (bytes.fromhex("2a8648ce3d0201"), b"\x2a\x86\x48\xce\x3d\x02\x77"),
    ],
    ids=["another version", "a key of an unknown kind"],
)
def test_a_certificate_that_nobody_can_use_is_no_set_of_keys(what: bytes, instead: bytes) -> None:
    document = json.loads(key_set(certificate=True))
    entry = next(entry for entry in document["keys"] if "x5c" in entry)
    changed = base64.b64decode(entry["x5c"][0]).replace(what, instead)
    assert instead in changed
    entry["x5c"] = [base64.b64encode(changed).decode()]
    with pytest.raises(PolicyError):
        load_keys(json.dumps(document).encode())
