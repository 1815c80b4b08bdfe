"""The trust policy is typed, strict, and says what it is in one sentence."""

from __future__ import annotations

import pytest

from k3_ledger.schemas.errors import PolicyError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.policy import TrustPolicy, parse_policy

KEY = "ab" * 32


def test_a_policy_is_read_from_toml() -> None:
    text = f'root_public_key = "{KEY}"\norigin = "a/b"\nminimum_size = 7\nrequire = ["artifacts", "checkpoint"]\n'
    policy = parse_policy(text.encode())
    assert policy == TrustPolicy(bytes.fromhex(KEY), "a/b", 7, frozenset({"artifacts", "checkpoint"}))
    assert policy.sentence == (
        f"root key {KEY}; origin a/b; a signed head of at least 7 entries; required steps: checkpoint, artifacts"
    )


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


def test_misuse_is_a_value_error() -> None:
    for arguments in ({"root_public_key": b"short"}, {"minimum_size": -1}, {"require": frozenset({"nothing"})}):
        with pytest.raises(ValueError, match=r"bytes|negative|unknown step"):
            TrustPolicy(**arguments)
