"""Timestamps bound from above when entries existed, and only those of authorities that the reader named."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import TYPE_CHECKING, BinaryIO

import pytest

from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.log import Options, check_log
from k3_ledger.verify.policy import TrustPolicy, parse_policy
from k3_ledger.verify.source import MemorySource
from k3_ledger.verify.timestamps import BOUNDS_KEPT, MAX_TOKEN, REPLY_TYPE, Token
from tests.ledgers import JUDGE, ROOT, RUNNER, Builder, key_body, run_body, sign_head, small_ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from k3_ledger.verify.report import Report

POLICY = TrustPolicy(root_public_key=ROOT.public, timestamp_roots=(b"root",))
NOON = 1_780_000_000


def digest(note: bytes) -> bytes:
    """What a timestamp of a head is over: its text."""
    return sha256(note.partition(b"\n\n")[0] + b"\n").digest()


def reader(data: bytes, roots: Sequence[bytes]) -> Token:
    """Tokens of these tests are `time authority digest`, or the name of what is wrong with them."""
    assert tuple(roots) == (b"root",)
    parts = data.split(b" ", 2)
    if len(parts) == 1:
        raise LedgerError(Code[data.decode()], "wrong", expected="e", found="f")
    return Token(parts[2], int(parts[0]), parts[1].decode())


def check(tokens: Iterable[tuple[str, bytes]], policy: TrustPolicy | None = POLICY, *, read: bool = True) -> Report:
    ledger = small_ledger()
    kept = [("checkpoints/000000000007.note", sign_head(ledger.lines[:7]))]
    source = MemorySource(ledger.data, checkpoint=ledger.head(), kept=kept, tokens=tokens)
    return check_log(source, policy, Options(read_token=reader if read else None))


def step(report: Report) -> tuple[str, int, int, int, str]:
    found = report.steps[13]
    return str(found.outcome), found.checked, found.failed, found.not_checked, found.detail


def token(head: bytes, time: int = NOON, authority: str = "CN=a") -> bytes:
    return b"%d %s " % (time, authority.encode()) + digest(head)


NEW, OLD = small_ledger().head(), sign_head(small_ledger().lines[:7])


def test_a_timestamp_bounds_when_the_entries_below_a_head_existed() -> None:
    report = check([("timestamps/000000000010.tsr", token(NEW))])
    assert report.exit_code == 0
    assert step(report) == ("pass", 1, 0, 0, "entries below 10 by 2026-05-28T20:26:40Z, according to CN=a")
    assert report.as_dict()["timestamped"] == [
        {"entries_below": 10, "at_or_before": "2026-05-28T20:26:40Z", "according_to": ["CN=a"]}
    ]


def test_of_several_the_earliest_counts_for_each_head() -> None:
    tokens = [
        ("a", token(NEW, NOON + 5)),
        ("b", token(NEW, NOON + 3, "CN=b")),
        ("c", token(NEW, NOON + 4)),
        ("d", token(OLD)),
    ]
    report = check(tokens)
    assert [(bound.size, bound.timestamp) for bound in report.stamps] == [(10, NOON + 3), (7, NOON)]
    assert step(report)[:4] == ("pass", 4, 0, 0)


def test_without_a_token_nothing_is_bounded() -> None:
    assert step(check([])) == ("not-checked", 0, 0, 0, "no timestamps")
    report = check([], TrustPolicy(timestamp_roots=(b"root",), require=frozenset({"timestamps"})))
    assert (report.exit_code, list(report.counts)) == (4, [Code.REQUIRED_NOT_CHECKED])


@pytest.mark.parametrize(
    ("policy", "read"), [(None, True), (TrustPolicy(root_public_key=ROOT.public), True), (POLICY, False)]
)
def test_without_an_authority_to_believe_tokens_are_counted_and_not_opened(
    policy: TrustPolicy | None, read: bool
) -> None:
    report = check([("t", b"TIMESTAMP_BAD"), ("u", token(NEW))], policy, read=read)
    assert (report.exit_code, report.stamps) == (0, ())
    assert step(report)[:4] == ("not-checked", 0, 0, 2)


@pytest.mark.parametrize(
    ("name", "exit_code", "counts"),
    [
        ("TIMESTAMP_UNREADABLE", 0, ("not-checked", 1, 0, 1)),
        ("TIMESTAMP_UNTRUSTED", 0, ("not-checked", 1, 0, 1)),
        ("TIMESTAMP_BAD", 1, ("FAIL", 2, 1, 0)),
    ],
)
def test_a_stranger_s_token_is_not_checked_and_a_forged_one_is_false(
    name: str, exit_code: int, counts: tuple[str, int, int, int]
) -> None:
    report = check([("t", name.encode()), ("u", token(NEW))])
    assert (report.exit_code, report.findings[0].code, report.findings[0].position.source) == (
        exit_code,
        Code[name],
        "t",
    )
    assert step(report)[1:4] == counts[1:]
    assert [bound.size for bound in report.stamps] == [10], "the good one beside it still counts"


def test_a_token_of_something_else_bounds_nothing() -> None:
    forked = Builder(small_ledger().lines[:9]).runs(2).head()
    report = check([("t", token(forked))])
    assert (report.exit_code, list(report.counts), report.stamps) == (0, [Code.TIMESTAMP_ELSEWHERE], ())
    assert step(report)[:4] == ("not-checked", 0, 0, 1)


def test_a_head_that_does_not_hold_is_bounded_by_nothing() -> None:
    ledger = small_ledger()
    forged = sign_head(ledger.lines, ROOT)
    source = MemorySource(ledger.data, checkpoint=forged, tokens=[("t", token(forged))])
    report = check_log(source, POLICY, Options(read_token=reader))
    assert (report.exit_code, report.stamps) == (1, ())


def test_cosignatures_that_are_added_later_change_nothing() -> None:
    assert digest(NEW) == digest(NEW + "\u2014 witness AAAA\n".encode())


def test_a_medium_that_fails_is_said_and_stops_nothing() -> None:
    class Broken(MemorySource):
        def timestamps(self) -> Iterable[tuple[str, bytes]]:
            raise StoreError(Code.UNREADABLE, "no such disk")

    ledger = small_ledger()
    report = check_log(Broken(ledger.data, checkpoint=ledger.head()), POLICY, Options(read_token=reader))
    assert (report.exit_code, list(report.counts)) == (0, [Code.TIMESTAMP_UNREADABLE])


# --------------------------------------------------------------------------------------------------------- artifacts


def stamped(
    *tokens: bytes, raw: bytes = b"raw samples", media_type: str = REPLY_TYPE
) -> tuple[Builder, dict[str, bytes]]:
    """A ledger whose last receipt has an artifact, and tokens as further ones."""
    parts = [("raw", b"raw samples", "text/plain"), *((f"t{i}", data, media_type) for i, data in enumerate(tokens))]
    artifacts = [
        {"name": name, "sha256": sha256(data).hexdigest(), "size": len(data), "media_type": kind}
        for name, data, kind in parts
    ]
    ledger = small_ledger(2)
    ledger.add("run", run_body(1, artifacts=artifacts), RUNNER)
    return ledger, {sha256(data).hexdigest(): data for _, data, _ in parts}


def of(data: bytes, time: int = NOON) -> bytes:
    return b"%d CN=a " % time + sha256(data).digest()


def check_stamped(ledger: Builder, artifacts: dict[str, bytes], policy: TrustPolicy = POLICY) -> Report:
    source = MemorySource(ledger.data, checkpoint=ledger.head(), artifacts=artifacts)
    return check_log(source, policy, Options(read_token=reader))


def test_a_receipt_may_carry_a_timestamp_of_its_own_artifact() -> None:
    report = check_stamped(*stamped(of(b"raw samples")))
    assert (report.exit_code, step(report)[:4]) == (0, ("pass", 1, 0, 0))
    assert report.as_dict()["timestamped_artifacts"] == [
        {"entry": 6, "artifact": "raw", "at_or_before": "2026-05-28T20:26:40Z", "according_to": ["CN=a"]}
    ]


def test_a_timestamp_of_itself_of_another_token_or_of_nothing_bounds_nothing() -> None:
    report = check_stamped(*stamped(of(b"raw samples"), of(of(b"raw samples")), of(b"other")))
    assert (report.exit_code, step(report)[:4]) == (0, ("not-checked", 1, 0, 2))
    assert report.counts == {Code.TIMESTAMP_ELSEWHERE: 2}


def test_a_receipt_s_forged_timestamp_is_false_and_names_the_receipt() -> None:
    report = check_stamped(*stamped(b"TIMESTAMP_BAD"))
    assert (report.exit_code, report.findings[0].position.index) == (1, 6)
    assert report.artifact_stamps == ()


def test_a_receipt_s_timestamp_that_is_missing_changed_or_huge_is_the_artifact_step_s_matter() -> None:
    ledger, artifacts = stamped(of(b"raw samples"))
    name = sha256(of(b"raw samples")).hexdigest()
    for given in ({}, {name: b"changed"}, {name: b"x" * (MAX_TOKEN + 9)}):
        report = check_stamped(ledger, {**artifacts, name: b""} | given if given else {})
        assert step(report) == ("not-checked", 0, 0, 0, "no timestamps")

    class Broken(MemorySource):
        def open_artifact(self, sha256: str) -> BinaryIO | None:
            raise StoreError(Code.UNREADABLE, "no such disk")

    report = check_log(Broken(ledger.data, checkpoint=ledger.head()), POLICY, Options(read_token=reader))
    assert step(report)[:4] == ("not-checked", 0, 0, 0)


def test_only_what_is_called_a_timestamp_is_one_and_only_for_who_asks() -> None:
    ledger, artifacts = stamped(of(b"raw samples"), media_type="text/plain")
    ledger.add("note", {"text": f'"media_type":"{REPLY_TYPE}"', "artifacts": []}, JUDGE)
    assert check_stamped(ledger, artifacts).artifact_stamps == ()
    assert check_stamped(*stamped(of(b"raw samples")), TrustPolicy(ROOT.public)).artifact_stamps == ()


def test_what_was_taken_back_or_does_not_verify_is_not_dated() -> None:
    ledger, artifacts = stamped(of(b"raw samples"))
    body = key_body(RUNNER, "runner", "revoke", revoked_from=6, reason="stolen")
    ledger.add("key", body, ROOT)
    assert check_stamped(ledger, artifacts).artifact_stamps == ()
    ledger, artifacts = stamped(of(b"raw samples"))
    ledger.lines[5] = ledger.lines[5].replace(b'"count":10', b'"count":11')
    assert check_stamped(ledger, artifacts).artifact_stamps == ()


def test_many_dated_artifacts_are_counted_and_some_are_named() -> None:
    token = of(b"raw samples")
    ledger, artifacts = stamped(token)
    artifact = [
        {"name": name, "sha256": sha256(data).hexdigest(), "size": len(data), "media_type": kind}
        for name, data, kind in (("raw", b"raw samples", "text/plain"), ("t", token, REPLY_TYPE))
    ]
    for number in range(BOUNDS_KEPT + 5):
        ledger.add("run", run_body(number, artifacts=artifact), RUNNER)
    report = check_stamped(ledger, artifacts)
    assert (step(report)[:2], len(report.artifact_stamps)) == (("pass", BOUNDS_KEPT + 6), BOUNDS_KEPT)


# ------------------------------------------------------------------------------------------------------------ policy


def pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n"


def test_authorities_are_named_by_their_root_certificates() -> None:
    policy = parse_policy(f'timestamp_roots = ["""{pem(b"one root")}""", """\n{pem(b"another")}"""]\n'.encode())
    assert policy.timestamp_roots == (b"one root", b"another")
    assert "2 timestamp authorities believed" in policy.sentence
    assert policy.as_dict()["timestamp_roots"] == sorted(sha256(root).hexdigest() for root in policy.timestamp_roots)
    assert policy.digest != TrustPolicy().digest


NO_LISTS = ['"x"', "[1]", '["x"]', "[{}]", "[[]]"]
NO_CERTIFICATES = [pem(b"abc")[5:], pem(b"abc") * 2, pem(b"abcd").replace("=", ""), pem(b"abc").replace("Y", "\u00e9")]


@pytest.mark.parametrize("value", [*NO_LISTS, *(f'["""{text}"""]' for text in NO_CERTIFICATES)])
def test_what_is_no_certificate_is_refused(value: str) -> None:
    with pytest.raises(LedgerError) as caught:
        parse_policy(f"timestamp_roots = {value}\n".encode())
    assert caught.value.code is Code.POLICY_MALFORMED
