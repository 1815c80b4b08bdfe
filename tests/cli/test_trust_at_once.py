"""Several who add to one trust policy at once: every demand that was acknowledged stands in it."""

from __future__ import annotations

import threading

import pytest

from k3_ledger.cli import files, policy_file, trust_commands
from k3_ledger.ledger.core.note import KeyType, Verifier, format_verifier_key
from k3_ledger.verify.policy import parse_policy
from tests.ledgers import LOG, ROOT, RUNNER

WITNESS = format_verifier_key(Verifier("w.example", LOG.public, KeyType.COSIGNATURE))
OTHER = format_verifier_key(Verifier("x.example", RUNNER.public, KeyType.COSIGNATURE))
PEM = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"

ADDED = {
    "require": lambda path: trust_commands.add_require(["chain"], path),
    "size": lambda path: trust_commands.add_size(5, path),
    "age": lambda path: trust_commands.add_age(60, path),
    "key": lambda path: trust_commands.add_key(ROOT.public.hex(), path),
    "witness": lambda path: trust_commands.add_witness(WITNESS, None, None, path),
    "timestamps": lambda path: trust_commands.add_timestamps(path.with_name("a.pem"), path),
    "attestation": lambda path: trust_commands.add_attestation(["tdx"], trust=path),
    "pins": lambda path: trust_commands.add_attestation(pin=[f"mrtd={'a' * 96}"], trust=path),
}
MEANWHILE = {
    "require": ("trust", "add", "require", "schema"),
    "witness": ("trust", "add", "witness", OTHER, "--operator", "other.example"),
    "timestamps": ("trust", "add", "timestamps", "b.pem"),
    "attestation": ("trust", "add", "attestation", "--kind", "nvidia"),
    "pins": ("trust", "add", "attestation", "--pin", f"mrtd={'b' * 96}"),
}
SAID = {
    "require": lambda policy: "chain" in policy.require,
    "size": lambda policy: policy.minimum_size == 5,
    "age": lambda policy: policy.maximum_head_age_seconds == 60,
    "key": lambda policy: policy.root_public_key == ROOT.public,
    "witness": lambda policy: "w.example" in {witness.operator for witness in policy.witnesses},
    "timestamps": lambda policy: b"\x00\x00\x00" in policy.timestamp_roots,
    "attestation": lambda policy: "tdx" in policy.attestation.kinds,
    "pins": lambda policy: "a" * 96 in dict(policy.attestation.measurements)["mrtd"],
}
SAID_MEANWHILE = {
    "require": lambda policy: "schema" in policy.require,
    "witness": lambda policy: "other.example" in {witness.operator for witness in policy.witnesses},
    "timestamps": lambda policy: b"\x10\x00\x00" in policy.timestamp_roots,
    "attestation": lambda policy: "nvidia" in policy.attestation.kinds,
    "pins": lambda policy: "b" * 96 in dict(policy.attestation.measurements)["mrtd"],
}


@pytest.fixture
def path(run, tmp_path):
    (tmp_path / "trust.toml").write_text('origin = "example.org/bench"\n')
    (tmp_path / "a.pem").write_text(PEM.format("AAAA"))
    (tmp_path / "b.pem").write_text(PEM.format("EAAA"))
    return tmp_path / "trust.toml"


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("added", ADDED)
def test_what_two_add_at_once_stands_in_the_policy(added, meanwhile, run, path, monkeypatch):
    """The other one begins when this one has read the policy and not yet replaced it."""
    replace, other, begun = policy_file.replace_file, [], threading.Event()

    def second():
        begun.set()
        ADDED[added](path)

    def late(*given, **named):
        if not other:  # the first to come here, and not the one that waits for it
            other.append(threading.Thread(target=second))
            other[0].start()
            begun.wait()
            other[0].join(0.2)
        replace(*given, **named)

    monkeypatch.setattr(policy_file, "replace_file", late)
    assert run(*MEANWHILE[meanwhile]).code == 0
    other[0].join()
    policy = parse_policy(path.read_bytes())
    assert SAID[added](policy)
    assert SAID_MEANWHILE[meanwhile](policy)
    assert policy.origin == "example.org/bench"


def test_a_policy_that_is_replaced_loses_nothing_that_is_added_behind_it(path, monkeypatch):
    replace, other = policy_file.replace_file, []

    def late(*given, **named):
        if not other:
            other.append(threading.Thread(target=ADDED["require"], args=[path]))
            other[0].start()
            other[0].join(0.2)
        replace(*given, **named)

    monkeypatch.setattr(policy_file, "replace_file", late)
    old = policy_file.create(path, b"minimum_size = 3\n", replacing=True)
    other[0].join()
    assert old.origin == "example.org/bench"
    assert (parse_policy(path.read_bytes()).minimum_size, SAID["require"](parse_policy(path.read_bytes()))) == (3, True)


def test_a_lock_is_given_back(path):
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), files.alone(path):
            raise ZeroDivisionError
