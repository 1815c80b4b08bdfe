"""The one signature rule: what it accepts, the code for everything that it does not, and every published vector."""

from __future__ import annotations

import json
from collections import Counter

import nacl.bindings
import nacl.exceptions
import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.core import ed25519
from k3_ledger.ledger.core.ed25519 import check_implementation, check_public_key, check_signature
from k3_ledger.schemas.outcomes import Position
from tests.ledger.core.samples import TestKey, code_of, refusal
from tests.reference import ed25519_known_answers, naive_ed25519

KEY = TestKey("runner")
MESSAGE = b"a message"
GOOD = KEY.sign(MESSAGE)
PLACE = Position(source="ledger.jsonl", index=4)


def encoded(number):
    return number.to_bytes(32, "little")


def verdict(key, message, signature):
    return code_of(check_signature, bytes.fromhex(key), message, bytes.fromhex(signature))


def openssl_accepts(key, message, signature):
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


# ------------------------------------------------------------------------------------------------------- the rule


def test_an_honest_signature_is_accepted():
    check_signature(KEY.public_key, MESSAGE, GOOD)
    check_public_key(KEY.public_key)


def off_curve():
    y = next(y for y in range(2, 99) if naive_ed25519.decode(encoded(y)) is None)
    return encoded(y)


def beyond_p():
    """A non-canonical encoding of a point that is not of low order."""
    y = next(y for y in range(2, 19) if naive_ed25519.decode(encoded(y)) is not None)
    return encoded(y + naive_ed25519.P)


def low_order():
    """All eight points of low order, and the encodings beside the canonical one that decoders take for them."""
    point, points = naive_ed25519.IDENTITY, set()
    for _ in range(8):
        point = naive_ed25519.add(point, naive_ed25519.torsion_point())
        points.add(naive_ed25519.encode(point))
    numbers = {int.from_bytes(canonical, "little") for canonical in points}
    sign = 1 << 255
    beyond = {n + naive_ed25519.P for n in numbers if n % sign < 19}
    minus_zero = {n ^ sign for n in numbers | beyond if n % sign % naive_ed25519.P in (1, naive_ed25519.P - 1)}
    found = {encoded(n) for n in numbers | beyond | minus_zero}
    assert (len(points), len(found)) == (8, 14)
    return sorted(found)


@pytest.mark.parametrize("point", low_order(), ids=bytes.hex)
def test_no_low_order_point_is_a_key_or_part_of_a_signature(point):
    assert code_of(check_public_key, point) == "PUBLIC_KEY_LOW_ORDER"
    assert code_of(check_signature, point, MESSAGE, GOOD) == "PUBLIC_KEY_LOW_ORDER"
    assert code_of(check_signature, KEY.public_key, MESSAGE, point + GOOD[32:]) == "SIGNATURE_R_LOW_ORDER"


@pytest.mark.parametrize("make", [off_curve, beyond_p])
def test_what_is_no_canonical_point_is_neither_key_nor_r(make):
    point = make()
    assert code_of(check_public_key, point) == "PUBLIC_KEY_ENCODING"
    assert code_of(check_signature, point, MESSAGE, GOOD) == "PUBLIC_KEY_ENCODING"
    assert code_of(check_signature, KEY.public_key, MESSAGE, point + GOOD[32:]) == "SIGNATURE_R_ENCODING"


def test_a_key_with_a_torsion_component_is_refused_at_enrolment():
    key = naive_ed25519.decode(KEY.public_key)
    mixed = naive_ed25519.encode(naive_ed25519.add(key, naive_ed25519.torsion_point()))
    error = refusal(check_public_key, mixed, position=PLACE)
    assert error.code.name == "PUBLIC_KEY_MIXED_ORDER"
    assert (error.finding.position, error.finding.found) == (PLACE, mixed.hex())


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_key_of_another_length_is_refused(length):
    assert code_of(check_public_key, bytes(length)) == "PUBLIC_KEY_LENGTH"
    assert code_of(check_signature, bytes(length), MESSAGE, GOOD) == "PUBLIC_KEY_LENGTH"


@pytest.mark.parametrize("length", [0, 63, 65])
def test_a_signature_of_another_length_is_refused(length):
    error = refusal(check_signature, KEY.public_key, MESSAGE, (GOOD + GOOD)[:length], position=PLACE)
    assert error.code.name == "SIGNATURE_LENGTH"
    assert f"{length} bytes" in str(error)
    assert error.finding.position == PLACE


def test_bytes_moved_between_signature_and_message_are_noticed():
    assert code_of(check_signature, KEY.public_key, MESSAGE[1:], GOOD + MESSAGE[:1]) == "SIGNATURE_LENGTH"


def test_s_counts_below_the_group_order_only():
    s = int.from_bytes(GOOD[32:], "little")
    for beyond in (s + naive_ed25519.L, naive_ed25519.L, 2**256 - 1):
        assert code_of(check_signature, KEY.public_key, MESSAGE, GOOD[:32] + encoded(beyond)) == "SIGNATURE_S_RANGE"
    below = GOOD[:32] + encoded(naive_ed25519.L - 1)
    assert code_of(check_signature, KEY.public_key, MESSAGE, below) == "SIGNATURE_MISMATCH"


@given(st.integers(min_value=0, max_value=64 * 8 - 1))
def test_a_changed_bit_of_a_signature_is_refused(bit):
    changed = bytearray(GOOD)
    changed[bit // 8] ^= 1 << bit % 8
    assert code_of(check_signature, KEY.public_key, MESSAGE, bytes(changed)) is not None


def test_a_plain_mismatch_has_its_own_code_and_place():
    error = refusal(check_signature, KEY.public_key, MESSAGE + b"!", GOOD, position=PLACE)
    assert error.code.name == "SIGNATURE_MISMATCH"
    assert error.finding.position == PLACE
    assert code_of(check_signature, TestKey("judge").public_key, MESSAGE, GOOD) == "SIGNATURE_MISMATCH"


@given(st.binary(max_size=40), st.binary(max_size=9), st.binary(max_size=70))
def test_arbitrary_bytes_are_refused_with_a_ledger_error(key, message, signature):
    assert code_of(check_signature, key, message, signature) is not None
    code_of(check_public_key, key)


# --------------------------------------------------------------------------------------- the library that is there


def test_the_installed_library_follows_the_rule():
    check_implementation()


def test_the_known_answers_are_what_their_generator_makes():
    rows = tuple(ed25519_known_answers.rows())
    assert rows == ed25519._KNOWN_ANSWERS
    assert ed25519._KNOWN_MESSAGE == ed25519_known_answers.MESSAGE
    for name, key, signature, accepted in rows:
        assert naive_ed25519.accepts(key, ed25519_known_answers.MESSAGE, signature) == accepted, name


@pytest.mark.parametrize(("accepted", "differs_on"), [(True, "S \\+ L"), (False, "an honest signature")])
def test_a_library_with_another_rule_is_noticed(monkeypatch, accepted, differs_on):
    def other_rule(signed, key):
        if not accepted:
            raise nacl.exceptions.BadSignatureError

    monkeypatch.setattr(nacl.bindings, "crypto_sign_open", other_rule)
    with pytest.raises(RuntimeError, match=differs_on):
        check_implementation()


def test_most_known_answers_would_be_accepted_by_openssl():
    accepted = [
        name
        for name, key, signature, _ in ed25519._KNOWN_ANSWERS
        if openssl_accepts(key, ed25519._KNOWN_MESSAGE, signature)
    ]
    assert accepted == [
        "an honest signature",
        "R of low order",
        "a public key of low order",
        "a non-canonical public key",
    ]


# ----------------------------------------------------------------------------------------------- published vectors


def test_rfc_8032(test_data):
    cases = json.loads(test_data("vectors", "rfc8032", "vectors.json").read_bytes())
    assert len(cases) == 5
    for case in cases:
        message = bytes.fromhex(case["message"])
        assert verdict(case["public"], message, case["signature"]) is None
        assert verdict(case["public"], message + b"!", case["signature"]) == "SIGNATURE_MISMATCH"
        check_public_key(bytes.fromhex(case["public"]))


def test_sign_input(test_data):
    lines = test_data("vectors", "ed25519-sign-input", "sign.input").read_text(encoding="ascii").splitlines()
    assert len(lines) == 1024
    for text in lines:
        secret, public, message, signed, _ = text.split(":")
        assert secret.endswith(public)
        assert signed.endswith(message)
        assert verdict(public, bytes.fromhex(message), signed[:128]) is None
        assert verdict(public, bytes.fromhex(message) + b"!", signed[:128]) == "SIGNATURE_MISMATCH"


def test_wycheproof(test_data):
    document = json.loads(test_data("vectors", "wycheproof", "ed25519_test.json").read_bytes())
    seen = Counter()
    codes = {}
    for group in document["testGroups"]:
        for case in group["tests"]:
            code = verdict(group["publicKey"]["pk"], bytes.fromhex(case["msg"]), case["sig"])
            assert (code is None) == (case["result"] == "valid"), case
            seen[case["result"]] += 1
            codes.setdefault(case["flags"][0], set()).add(code)
    assert seen == {"valid": 88, "invalid": 63}
    assert codes == {
        "Valid": {None},
        "Ktv": {None},
        "TinkOverflow": {None},
        "InvalidKtv": {"SIGNATURE_S_RANGE"},
        "SignatureMalleability": {"SIGNATURE_S_RANGE"},
        "TruncatedSignature": {"SIGNATURE_LENGTH"},
        "SignatureWithGarbage": {"SIGNATURE_LENGTH"},
        "CompressedSignature": {"SIGNATURE_LENGTH"},
        "InvalidSignature": {"SIGNATURE_S_RANGE", "SIGNATURE_R_LOW_ORDER", "SIGNATURE_R_ENCODING"},
        "InvalidEncoding": {"SIGNATURE_MISMATCH", "SIGNATURE_R_ENCODING", "SIGNATURE_R_LOW_ORDER"},
    }


@pytest.fixture
def cctv(test_data):
    cases = json.loads(test_data("vectors", "cctv-ed25519", "ed25519vectors.json").read_bytes())
    assert len(cases) == 914
    return [
        (bytes.fromhex(c["key"]), c["msg"].encode(), bytes.fromhex(c["sig"]), frozenset(c["flags"] or ()))
        for c in cases
    ]


def test_cctv_verdicts_follow_from_the_flags(cctv):
    seen = Counter()
    for key, message, signature, flags in cctv:
        if "low_order_A" in flags:
            expected = "PUBLIC_KEY_LOW_ORDER"
        elif "low_order_R" in flags:
            expected = "SIGNATURE_R_LOW_ORDER"
        elif "low_order_residue" in flags:
            expected = "SIGNATURE_MISMATCH"
        else:
            expected = None
        assert code_of(check_signature, key, message, signature) == expected, flags
        seen[expected] += 1
    assert seen == {
        None: 43,
        "SIGNATURE_MISMATCH": 63,
        "SIGNATURE_R_LOW_ORDER": 282,
        "PUBLIC_KEY_LOW_ORDER": 526,
    }


def test_cctv_verdicts_are_those_of_the_naive_rule(cctv):
    for key, message, signature, flags in cctv:
        accepted = code_of(check_signature, key, message, signature) is None
        assert naive_ed25519.accepts(key, message, signature) == accepted, flags


def test_of_the_keys_of_cctv_one_can_be_enrolled(cctv):
    keys = {key for key, *_ in cctv}
    prime_order = {
        key
        for key in keys
        if (point := naive_ed25519.decode(key)) is not None
        and naive_ed25519.is_identity(naive_ed25519.multiply(naive_ed25519.L, point))
        and not naive_ed25519.is_identity(point)
    }
    codes = {key: code_of(check_public_key, key) for key in keys}
    assert {key for key, code in codes.items() if code is None} == prime_order
    assert Counter(codes.values()) == {None: 1, "PUBLIC_KEY_LOW_ORDER": 14, "PUBLIC_KEY_MIXED_ORDER": 7}


def test_openssl_accepts_165_cctv_signatures_that_the_rule_refuses(cctv):
    """Why the rule exists: with another library the same ledger would have another verdict."""
    differing = Counter(
        code_of(check_signature, key, message, signature)
        for key, message, signature, _ in cctv
        if openssl_accepts(key, message, signature)
    )
    assert differing.pop(None) == 43
    assert sum(differing.values()) == 165
    identity = encoded(1)
    assert any(key == identity and openssl_accepts(key, message, signature) for key, message, signature, _ in cctv)


def test_speccheck(test_data):
    cases = json.loads(test_data("vectors", "ed25519-speccheck", "cases.json").read_bytes())
    codes = [verdict(case["pub_key"], bytes.fromhex(case["message"]), case["signature"]) for case in cases]
    assert "".join("X" if code else "V" for code in codes) == "XXXVXXXXXXXX"
    assert codes == [
        "PUBLIC_KEY_LOW_ORDER",
        "PUBLIC_KEY_LOW_ORDER",
        "SIGNATURE_R_LOW_ORDER",
        None,
        "SIGNATURE_MISMATCH",
        "SIGNATURE_MISMATCH",
        "SIGNATURE_S_RANGE",
        "SIGNATURE_S_RANGE",
        "SIGNATURE_R_LOW_ORDER",
        "SIGNATURE_R_LOW_ORDER",
        "PUBLIC_KEY_LOW_ORDER",
        "PUBLIC_KEY_LOW_ORDER",
    ]
    assert code_of(check_public_key, bytes.fromhex(cases[3]["pub_key"])) == "PUBLIC_KEY_MIXED_ORDER"


@pytest.mark.parametrize(
    ("variant", "code"),
    [
        ("good", None),
        ("s_plus_L", "SIGNATURE_S_RANGE"),
        ("mixed_order_R", "SIGNATURE_MISMATCH"),
        ("truncated_63", "SIGNATURE_LENGTH"),
        ("trailing_byte", "SIGNATURE_LENGTH"),
    ],
)
def test_malleated_signatures_of_bug_case_20(test_data, variant, code):
    case = json.loads(test_data("bug-cases", "cases", "20-ed25519-malleable", "vectors.json").read_bytes())
    assert verdict(case["pub"], bytes.fromhex(case["msg"]), case[variant]) == code
