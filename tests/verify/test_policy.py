"""The trust policy is typed, strict, and says what it is in one sentence."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import pytest

from k3_ledger.ledger.core.cosignature import Witness
from k3_ledger.ledger.core.note import KeyType, Verifier
from k3_ledger.schemas.errors import PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.policy import TrustPolicy, parse_policy
from tests.ledgers import LOG, ROOT, canonical

KEY = ROOT.public.hex()


def test_a_policy_is_read_from_toml() -> None:
    text = f'root_public_key = "{KEY}"\norigin = "a/b"\nminimum_size = 7\nrequire = ["artifacts", "checkpoint"]\n'
    policy = parse_policy(text.encode())
    assert policy == TrustPolicy(bytes.fromhex(KEY), "a/b", 7, frozenset({"artifacts", "checkpoint"}))
    assert policy.sentence == (
        f"root key {KEY}; origin a/b; a signed head of at least 7 entries; required steps: checkpoint, artifacts"
    )


def test_a_limit_of_age_is_in_the_sentence() -> None:
    policy = parse_policy(b"maximum_head_age_seconds = 60")
    assert policy.maximum_head_age_seconds == 60
    assert policy.sentence.endswith("; a newest head that moved or was cosigned within 60 seconds")


def test_an_empty_policy_authenticates_nobody_and_says_so() -> None:
    assert parse_policy(b"") == TrustPolicy()
    assert "not authenticated" in TrustPolicy().sentence


@pytest.mark.parametrize(
    ("text", "field"),
    [
        (b"\xff", None),
        (b"root_public_key = ", None),
        (b'root_key = "x"', "root_key"),
        (b'root_public_key = "AB"', "root_public_key"),
        (b'root_public_key = "' + b"AB" * 32 + b'"', "root_public_key"),
        (b"root_public_key = 7", "root_public_key"),
        (b"origin = 7", "origin"),
        (b'minimum_size = "7"', "minimum_size"),
        (b"minimum_size = true", "minimum_size"),
        (b"minimum_size = -1", None),
        (b"maximum_head_age_seconds = 0", None),
        (b"maximum_head_age_seconds = 1.5", "maximum_head_age_seconds"),
        (b'require = "chain"', "require"),
        (b"require = [1]", "require"),
        (b'require = ["chains"]', None),
    ],
)
def test_a_policy_with_a_mistake_is_refused_and_the_key_is_named(text: bytes, field: str | None) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, "my.toml")
    finding = caught.value.finding
    assert (finding.code, finding.position.source, finding.position.field) == (Code.POLICY_MALFORMED, "my.toml", field)
    assert finding.code.info.exit == ExitCode.USAGE


def test_the_digest_is_about_what_a_policy_says_and_not_how() -> None:
    one = parse_policy(f'root_public_key = "{KEY}"\nrequire = ["checkpoint", "artifacts"]\n'.encode())
    two = parse_policy(f'# mine\nrequire = ["artifacts", "checkpoint"]\nroot_public_key = "{KEY}"\nquorum = 0'.encode())
    assert one.digest == two.digest == hashlib.sha256(canonical(one.as_dict())).hexdigest()


def test_every_part_of_a_policy_is_in_its_digest() -> None:
    key = Verifier("w", ROOT.public, KeyType.COSIGNATURE)
    other = Verifier("w", LOG.public, KeyType.COSIGNATURE)
    policies = [
        TrustPolicy(),
        TrustPolicy(root_public_key=bytes.fromhex(KEY)),
        TrustPolicy(origin="a/b"),
        TrustPolicy(minimum_size=1),
        TrustPolicy(maximum_head_age_seconds=1),
        TrustPolicy(require=frozenset({"chain"})),
        TrustPolicy(witnesses=(Witness(key, "a"),), quorum=1),
        TrustPolicy(witnesses=(Witness(key, "b"),), quorum=1),
        TrustPolicy(witnesses=(Witness(other, "a"),), quorum=1),
        TrustPolicy(witnesses=(Witness(key, "a"), Witness(other, "b")), quorum=1),
        TrustPolicy(witnesses=(Witness(key, "a"), Witness(other, "b")), quorum=2),
        TrustPolicy(attestation=AttestationPolicy()),
        TrustPolicy(attestation=AttestationPolicy(at="now")),
    ]
    assert len({policy.digest for policy in policies}) == len(policies)
    assert len(fields(TrustPolicy)) == len(TrustPolicy().as_dict())
    back = TrustPolicy(witnesses=(Witness(other, "b"), Witness(key, "a")), quorum=1)
    assert back.digest == policies[9].digest


def test_misuse_is_a_value_error() -> None:
    for arguments in ({"root_public_key": b"short"}, {"minimum_size": -1}, {"require": frozenset({"nothing"})}):
        with pytest.raises(ValueError, match=r"bytes|negative|unknown step"):
            TrustPolicy(**arguments)


@pytest.mark.parametrize(
    "line",
    ['origin = "example.org/speed\\n"', 'origin = "a\\u0007b"', 'origin = ""', f'root_public_key = "{"00" * 32}"',
     f'root_public_key = "01{"00" * 31}"', f'root_public_key = "{"ff" * 32}"'],
)  # fmt: skip
def test_a_name_or_a_key_that_no_log_can_have_is_refused(line: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(line.encode(), name="trust.toml")
    assert caught.value.code is Code.POLICY_MALFORMED
