"""What a trust policy gets wrong is said in the words of TOML; what it leaves open is never called authenticated."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import NO_POLICY_SENTENCE, TrustPolicy, parse_policy
from k3_ledger.verify.source import MemorySource
from tests.ledgers import ORIGIN, ROOT, Key, small_ledger

VALUES = (
    "1", "-1", "1.5", "true", '"x"', '""', "[]", "[1]", '[["x"]]', "{}", "{a = 1}", "2026-01-01", "10:00:00",
    "2026-01-01T00:00:00Z", "nan", "inf", str(2**53), '"\\u0000"', '"' + "x" * 500 + '"', "[[[[]]]]",
)  # fmt: skip
TOP = (
    "root_public_key", "origin", "minimum_size", "maximum_head_age_seconds", "require", "quorum", "witness",
    "timestamp_roots", "attestation", "other",
)  # fmt: skip
ATTESTATION = ("kinds", "trust_dir", "at", "allow", "tcb_status", "refuse_advisories", "measurements", "other")
PYTHON = re.compile(
    r"\b(int|str|dict|float|bool|bytes|NoneType|None|True|False|datetime|tuple|unhashable|isoformat|codec|literal"
    r"|\w+Error)\b|Input should|_type\b|object is not"
)


@pytest.mark.parametrize("place", ["", "[[witness]]\n", "[attestation]\n", "[attestation.measurements]\n"])
def test_no_word_of_the_program_reaches_whoever_wrote_the_policy(place):
    names = {"": TOP, "[[witness]]\n": ("key", "operator", "other"), "[attestation]\n": ATTESTATION}
    refused = 0
    for name, value in itertools.product(names.get(place, ("mr_td", "rt_mr0")), VALUES):
        try:
            parse_policy(f"{place}{name} = {value}\n".encode())
        except LedgerError as error:
            found = error.finding
            said = " ".join(str(part) for part in (found.message, found.expected, found.found, found.advice) if part)
            assert not PYTHON.search(said.replace("true or false", "")), said
            assert found.code is Code.POLICY_MALFORMED
            assert name in f"{said} {found.position}"
            assert len(said) < 900
            refused += 1
    assert refused > 30 or place.endswith("measurements]\n")


@pytest.mark.parametrize(
    "data", [b"\xff", b"origin = 'a\xff'", b"a = ", b"[a", b"a = 1\na = 2", b"a = " + b"[" * 10**5]
)
def test_what_is_no_toml_is_said_to_be_none(data):
    with pytest.raises(LedgerError) as caught:
        parse_policy(data)
    assert caught.value.finding.message.startswith("the trust policy is not TOML: ")
    assert not PYTHON.search(caught.value.finding.message)


def test_a_number_that_no_reader_keeps_exactly_is_refused():
    assert parse_policy(f"minimum_size = {2**53 - 1}\n".encode()).minimum_size == 2**53 - 1
    for name in ("minimum_size", "maximum_head_age_seconds"):
        with pytest.raises(LedgerError) as caught:
            parse_policy(f"{name} = {2**53}\n".encode())
        assert (caught.value.code, caught.value.finding.expected) == (Code.POLICY_MALFORMED, f"at most {2**53 - 1}")


PARTS = {
    "origin": f'origin = "{ORIGIN}"\n',
    "minimum_size": "minimum_size = 1\n",
    "age": "maximum_head_age_seconds = 9000000000\n",
    "require": 'require = ["framing"]\n',
    "attestation": '[attestation]\nkinds = ["tdx"]\n',
}
KEY = f'root_public_key = "{ROOT.public.hex()}"\n'


@pytest.mark.parametrize("size", range(1, len(PARTS) + 1))
def test_a_policy_without_a_root_key_authenticates_nobody_whatever_else_it_says(size):
    log = MemorySource(small_ledger().data, checkpoint=small_ledger().head())
    for chosen in itertools.combinations(PARTS, size):
        text = "".join(PARTS[name] for name in chosen)
        report = check_log(log, parse_policy(text.encode()))
        assert not report.authenticated
        assert report.policy.startswith("integrity checked; signer not authenticated (no root key in the trust policy)")
        keyed = check_log(log, parse_policy((KEY + text).encode()))
        assert keyed.authenticated
        assert "not authenticated" not in keyed.policy
        assert keyed.policy.startswith(f"root key {ROOT.public.hex()}")


def test_no_policy_and_one_with_another_key_authenticate_nobody():
    log = MemorySource(small_ledger().data, checkpoint=small_ledger().head())
    assert check_log(log).policy == NO_POLICY_SENTENCE
    assert not check_log(log).authenticated
    report = check_log(log, replace(TrustPolicy(), root_public_key=Key("another").public))
    assert (report.authenticated, report.exit_code) == (False, ExitCode.FALSE)
