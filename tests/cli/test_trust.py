"""The file that says whom an auditor trusts: begun from a ledger, shown, added to, never overwritten in silence."""

from __future__ import annotations

import os
import stat
import tomllib

import pytest
from docs.examples.made_up_intel import World

from k3_ledger.cli.trust import read_policy
from k3_ledger.ledger.core.note import KeyType, Verifier, format_verifier_key
from k3_ledger.schemas.errors import PolicyError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.policy import TrustPolicy, parse_policy
from tests.ledgers import LOG, ORIGIN, ROOT, RUNNER, small_ledger

WITNESS = format_verifier_key(Verifier("w.example", LOG.public, KeyType.COSIGNATURE))
OTHER = format_verifier_key(Verifier("x.example", RUNNER.public, KeyType.COSIGNATURE))


@pytest.fixture
def speed(run, tmp_path):
    folder = tmp_path / "speed"
    folder.mkdir()
    return small_ledger().write(folder)


def policy(path):
    return parse_policy(path.read_bytes())


# ----------------------------------------------------------------------------------------------------- trust init


def test_init_pins_what_the_ledger_says_and_says_that_this_is_first_use(run, speed, tmp_path):
    done = run("trust", "init", "speed")
    assert done.code == 0
    assert policy(tmp_path / "trust.toml") == TrustPolicy(ROOT.public, ORIGIN, 10)
    assert "note: trust on first use: this root key is what the ledger itself says" in done.err
    assert f"policy id  {policy(tmp_path / 'trust.toml').digest}" in done.out
    assert run("verify", "speed", "--trust", "trust.toml").code == 0
    (speed / "checkpoint").unlink()
    assert run("verify", "speed", "--trust", "trust.toml").code == 1


def test_init_with_a_root_key_from_elsewhere_is_not_first_use(run, speed, tmp_path):
    done = run("trust", "init", "speed", "--root", ROOT.public.hex(), "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["first_use"], done.json["policy"]["origin"]) == (False, ORIGIN)
    assert done.json["policy_sha256"] == policy(tmp_path / "trust.toml").digest
    assert "under a root key that was given" in (tmp_path / "trust.toml").read_text()
    assert run("trust", "init", "speed", "--out", "b.toml", "--json").json["first_use"]
    assert "trust on first use" in (tmp_path / "b.toml").read_text()


def test_init_under_another_root_key_writes_nothing(run, speed, tmp_path):
    done = run("trust", "init", "speed", "--root-key", LOG.public.hex())
    assert (done.code, done.out) == (1, "")
    assert "K3L-ROOT-NOT-TRUSTED" in done.err
    assert not (tmp_path / "trust.toml").exists()


def test_init_pins_no_ledger_that_does_not_verify(run, speed, tmp_path):
    data = (speed / "ledger.jsonl").read_bytes()
    (speed / "ledger.jsonl").write_bytes(data.replace(b'"count":10', b'"count":11', 1))
    assert run("trust", "init", "speed").code == 1
    (speed / "ledger.jsonl").write_bytes(data[:-10])
    assert run("trust", "init", "speed").code == 1
    assert not (tmp_path / "trust.toml").exists()


def test_init_without_a_checkpoint_pins_no_size(run, speed, tmp_path):
    (speed / "checkpoint").unlink()
    assert run("trust", "init", "speed").code == 0
    assert policy(tmp_path / "trust.toml") == TrustPolicy(ROOT.public, ORIGIN)


def test_init_overwrites_nothing_unless_told_and_then_says_what(run, speed, tmp_path):
    (tmp_path / "trust.toml").write_text('origin = "mine"\n')
    done = run("trust", "init", "speed")
    assert (done.code, (tmp_path / "trust.toml").read_text()) == (2, 'origin = "mine"\n')
    assert "K3L-POLICY-EXISTS" in done.err
    assert "--replace" in done.err
    done = run("trust", "init", "speed", "--replace")
    old = TrustPolicy(origin="mine")
    assert (done.code, f"replaced   {old.digest}: {old.sentence}" in done.out) == (0, True)
    done = run("trust", "init", "speed", "--replace", "--json")
    assert done.json["replaced_sha256"] == done.json["policy_sha256"]
    (tmp_path / "trust.toml").write_text("origin = ")
    assert run("trust", "init", "speed", "--replace").code == 3
    assert (tmp_path / "trust.toml").read_text() == "origin = ", "what is no policy is not taken for an old one"


def test_policy_that_cannot_be_written_leaves_nothing(run, speed, tmp_path):
    assert run("trust", "init", "speed", "--out", "none/trust.toml").code == 3
    (tmp_path / "folder").mkdir()
    assert run("trust", "init", "speed", "--out", "folder", "--replace").code == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "speed"]


# ----------------------------------------------------------------------------------------------------- trust show


def test_show_prints_the_policy_and_its_id(run, tmp_path):
    (tmp_path / "t.toml").write_text(f'quorum = 1\n[[witness]]\nkey = "{WITNESS}"\noperator = "W Inc"\n')
    done = run("trust", "show", "-t", "t.toml")
    assert done.code == 0
    assert "cosignatures by 1 of 1 witnesses" in done.out
    assert "witness    w.example, operated by W Inc" in done.out
    shown = run("trust", "show", "-t", "t.toml", "--json").json
    assert run("trust", "show", "t.toml", "--json").json == shown
    assert run("trust", "show", "t.toml", "-t", "t.toml").code == 2
    assert shown["policy"]["witnesses"] == [{"key": WITNESS, "operator": "W Inc"}]
    assert shown["policy_sha256"] == policy(tmp_path / "t.toml").digest
    assert f"policy id  {shown['policy_sha256']}\n" in done.out


def test_what_is_no_policy_is_named(run, tmp_path):
    assert run("trust", "show").code == 3
    (tmp_path / "trust.toml").write_text("rot_key = 1")
    done = run("trust", "show")
    assert (done.code, "trust.toml" in done.err, "rot_key" in done.err) == (2, True, True)


# ------------------------------------------------------------------------------------------------------ trust add

MINE = """# whom I trust

origin = "example.org/speed"   # said on the phone
require = ["chain"] # at least
"""


@pytest.fixture
def mine(run, tmp_path):
    path = tmp_path / "trust.toml"
    path.write_text(MINE)
    return path


def test_adding_keeps_comments_and_order(run, mine):
    assert run("trust", "add", "key", ROOT.public.hex()).code == 0
    assert run("trust", "add", "witness", WITNESS, "--operator", "W Inc", "--quorum", 1).code == 0
    assert run("trust", "add", "witness", OTHER, "--quorum", 2).code == 0
    assert run("trust", "add", "size", 7).code == 0
    assert run("trust", "add", "age", 60).code == 0
    assert run("trust", "add", "require", "artifacts", "chain", "artifacts", "witnesses").code == 0
    text = mine.read_text()
    for line in MINE.splitlines()[:3]:
        assert line in text.splitlines()
    assert "] # at least" in text
    assert tomllib.loads(text)["require"] == ["chain", "artifacts", "witnesses"]
    said = policy(mine)
    assert (said.root_public_key, said.origin, said.minimum_size, said.quorum) == (ROOT.public, ORIGIN, 7, 2)
    assert said.maximum_head_age_seconds == 60
    assert [w.verifier.name for w in said.witnesses] == ["w.example", "x.example"]
    assert [w.operator for w in said.witnesses] == ["W Inc", "x.example"]


def test_a_witness_joins_a_list_written_inline(run, mine):
    mine.write_text(f'witness = [{{key = "{WITNESS}"}}] # mine\nquorum = 1\n')
    assert run("trust", "add", "witness", OTHER).code == 0
    assert (len(policy(mine).witnesses), policy(mine).quorum) == (2, 1)
    assert "# mine" in mine.read_text()


def test_the_first_witness_makes_the_quorum_1_and_says_so(run, mine):
    done = run("trust", "add", "witness", WITNESS, "--operator", "A")
    assert (done.code, policy(mine).quorum) == (0, 1)
    assert done.err == "note: the quorum is 1 now: one operator must have cosigned; --quorum sets another\n"
    again = run("trust", "add", "witness", OTHER, "--operator", "B")
    assert (again.code, again.err, policy(mine).quorum) == (0, "", 1)


@pytest.mark.parametrize(
    ("before", "words", "says"),
    [
        ("minimum_size = 1\n", (WITNESS, "--quorum", 2),
         "of witnesses by 1 operators: at most 1, or add the other witnesses first"),
        (f'quorum = 1\n[[witness]]\nkey = "{WITNESS}"\n', (OTHER, "--operator", "w.example", "--quorum", 2),
         "by 1 operators: at most 1, or add the other witnesses first"),
        ("quorum = 2\n", (WITNESS,), "a quorum of 2 cannot be asked of witnesses by 0 operators: none, or add the"),
        (f'[[witness]]\nkey = "{WITNESS}"\n', (OTHER,), "witnesses need a quorum: of how many operators, from 1 to 1"),
        ("quorum = -1\n", (WITNESS,), "a quorum must not be negative, got -1"),
    ],
)  # fmt: skip
def test_a_quorum_that_cannot_be_is_refused_with_the_cure(run, mine, before, words, says):
    mine.write_text(before)
    done = run("trust", "add", "witness", *words)
    assert (done.code, mine.read_text()) == (2, before)
    assert says in done.err


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("nonsense", "not a verifier key"),
        (WITNESS.replace("w.example+", "v.example+"), "belongs to another name or key, which is "),
        (format_verifier_key(Verifier("w.example", LOG.public)), "is the key of a log and not of a witness"),
    ],
)
def test_what_is_no_key_of_a_witness_is_a_usage_error(run, mine, key, says):
    done = run("trust", "add", "witness", key)
    assert (done.code, mine.read_text()) == (2, MINE)
    assert says in " ".join(done.err.split())


@pytest.mark.parametrize(
    "words",
    [
        ("witness", "nonsense", "--quorum", "1"),
        ("witness", WITNESS, "--quorum", "2"),
        ("key", "beef"),
        ("key", "nothing.pem"),
        ("size", "0"),
        ("require", "chains"),
        ("origin", "example.org/other"),
    ],
    ids=lambda words: " ".join(words)[:24],
)
def test_what_makes_no_policy_changes_nothing(run, mine, words):
    assert run("trust", "add", *words).code in (1, 2, 3)
    assert mine.read_text() == MINE


def test_one_key_is_not_two_witnesses(run, mine):
    assert run("trust", "add", "witness", WITNESS, "--quorum", 1).code == 0
    before = mine.read_text()
    twin = format_verifier_key(Verifier("twin.example", LOG.public, KeyType.COSIGNATURE))
    assert run("trust", "add", "witness", twin).code == 2
    assert run("trust", "add", "witness", WITNESS).code == 2
    assert mine.read_text() == before


def test_what_stands_there_is_replaced_only_when_told_and_then_shown(run, mine):
    assert run("trust", "add", "origin", ORIGIN).code == 0
    assert mine.read_text() == MINE
    done = run("trust", "add", "origin", "example.org/other")
    assert done.code == 2
    assert f"expected: {ORIGIN}" in done.err
    done = run("trust", "add", "origin", "example.org/other", "--replace")
    assert (done.code, done.err) == (0, f"note: origin was {ORIGIN}\n")
    assert "# said on the phone" in mine.read_text()
    run("trust", "add", "key", ROOT.public.hex())
    assert run("trust", "add", "key", LOG.public.hex()).code == 2
    done = run("trust", "add", "key", LOG.public.hex(), "--replace", "--json")
    assert done.err == f"note: root_public_key was {ROOT.public.hex()}\n"
    assert done.json["policy"]["root_public_key"] == LOG.public.hex()


def test_the_smallest_head_only_grows_by_itself(run, mine):
    assert run("trust", "add", "size", 7).code == 0
    assert run("trust", "add", "size", 9).code == 0
    done = run("trust", "add", "size", 8)
    assert (done.code, policy(mine).minimum_size) == (2, 9)
    assert "K3L-POLICY-EXISTS" in done.err
    assert run("trust", "add", "size", 8, "--replace").code == 0
    assert policy(mine).minimum_size == 8


def test_a_file_keeps_its_mode_and_a_link_its_target(run, mine, tmp_path):
    mine.chmod(0o640)
    (tmp_path / "link.toml").symlink_to("trust.toml")
    assert run("trust", "add", "size", 7, "-t", "link.toml").code == 0
    assert (tmp_path / "link.toml").is_symlink()
    assert stat.S_IMODE(mine.stat().st_mode) == 0o640
    assert policy(mine).minimum_size == 7


def test_a_policy_on_a_full_disk_is_left_whole(run, mine, monkeypatch):
    def full(_fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    done = run("trust", "add", "size", 7)
    assert (done.code, mine.read_text(), list(mine.parent.iterdir())) == (3, MINE, [mine])
    assert "No space left" in done.err


def test_a_new_file_on_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    from k3_ledger.cli.files import create_file

    def full(_fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="cannot write the file"):
        create_file(tmp_path / "new", b"x")
    assert list(tmp_path.iterdir()) == []


def test_links_in_a_circle_are_named(run, tmp_path):
    from k3_ledger.cli.files import replace_file

    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(StoreError):
        replace_file(tmp_path / "a", b"x")


def test_what_cannot_be_changed_in_place_is_left_to_its_owner(run, mine, monkeypatch):
    import tomlkit.exceptions

    def refuse(_text):
        raise tomlkit.exceptions.ParseError(1, 1, "a document that one parser reads and the other does not")

    monkeypatch.setattr("tomlkit.parse", refuse)
    done = run("trust", "add", "size", 7)
    assert (done.code, mine.read_text()) == (2, MINE)
    assert "change it by hand" in done.err


# ------------------------------------------------------------------------------------------------- attestations

PIN = "ab" * 48
CERTIFICATES = dict(World().anchors())
WORDS = ("trust", "add", "attestation")


def test_demands_on_attestations_are_added_to_a_table(run, mine, tmp_path):
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "root.pem").write_bytes(CERTIFICATES["root.pem"])
    assert run("trust", "add", "witness", WITNESS, "--quorum", 1).code == 0
    done = run(*WORDS, "--kind", "tdx", "--at", "now", "--trust-dir", "certs", "--pin", f"mrtd={PIN}")
    assert (done.code, done.err) == (0, "")
    assert run(*WORDS, "--kind", "nvidia", "--kind", "tdx", "--pin", f"mrtd={'cd' * 48}", "--allow", "smt").code == 0
    assert run(*WORDS, "--tcb-status", "OutOfDate", "--refuse-advisory", "INTEL-SA-00001").code == 0
    said = policy(mine).attestation
    assert said is not None
    assert (said.kinds, said.at, said.trust_dir) == ({"tdx", "nvidia"}, "now", "certs")
    assert said.measurements == (("mrtd", frozenset({PIN, "cd" * 48})),)
    assert (said.allow, said.tcb_status, said.refuse_advisories) == (
        {"smt"},
        {"UpToDate", "OutOfDate"},
        {"INTEL-SA-00001"},
    )
    for line in MINE.splitlines():
        assert line in mine.read_text().splitlines()


def test_a_demand_that_stands_there_is_replaced_only_when_told(run, mine):
    assert run(*WORDS, "--at", "receipt").code == 0
    assert run(*WORDS, "--at", "receipt").code == 0
    before = mine.read_text()
    done = run(*WORDS, "--at", "now")
    assert (done.code, "K3L-POLICY-EXISTS" in done.err, mine.read_text()) == (2, True, before)
    done = run(*WORDS, "--at", "now", "--replace")
    assert (done.code, done.err) == (0, "note: attestation.at was receipt\n")


@pytest.mark.parametrize(
    "words",
    [("--kind", "sgx"), ("--at", "noon"), ("--pin", "mrtd=ab"), ("--pin", "mrtd"), ("--allow", "all")],
    ids=" ".join,
)
def test_a_demand_that_is_none_changes_nothing(run, mine, words):
    done = run(*WORDS, *words)
    assert (done.code, mine.read_text()) == (2, MINE)
    assert "K3L-POLICY-MALFORMED" in done.err


def test_the_id_of_a_policy_covers_the_certificates_and_not_where_they_are(run, mine, tmp_path):
    for name in ("certs", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "root.pem").write_bytes(CERTIFICATES["root.pem"])
    first = run(*WORDS, "--trust-dir", "certs", "--json").json["policy_sha256"]
    assert run("trust", "show", "--json").json["policy_sha256"] == first
    second = run(*WORDS, "--trust-dir", "other", "--replace", "--json").json["policy_sha256"]
    assert second == first
    (tmp_path / "other" / "root.pem").write_bytes(CERTIFICATES["tcb_signing.pem"])
    assert run("trust", "show", "--json").json["policy_sha256"] != first


def test_a_trust_directory_that_is_not_there_yet_is_said(run, mine):
    done = run(*WORDS, "--trust-dir", "none")
    assert (done.code, "cannot be used yet" in done.err) == (0, True)
    assert policy(mine).attestation.trust_dir == "none"


def test_reports_carry_the_id_that_trust_show_prints(run, speed, tmp_path):
    (tmp_path / "certs").mkdir()
    (tmp_path / "certs" / "root.pem").write_bytes(CERTIFICATES["root.pem"])
    assert run("trust", "init", "speed").code == 0
    assert run(*WORDS, "--trust-dir", "certs", "--at", "now").code == 0
    shown = run("trust", "show", "--json").json["policy_sha256"]
    assert run("verify", "speed", "--trust", "trust.toml", "--json").json["policy_sha256"] == shown


@pytest.mark.parametrize("spelled", ["00", "f" * 63, "F" * 64, "0" * 65])
def test_a_root_key_of_another_length_is_told_what_one_is(run, speed, mine, spelled):
    for words in (("verify", "speed", "--root-key", spelled), ("trust", "add", "key", spelled),
                  ("bundle", "pack", "speed", "-o", "x.tar", "--root-key", spelled)):  # fmt: skip
        done = run(*words)
        assert (done.code, done.out) == (2, "")
        assert "is not 64 lower-case hexadecimal digits, nor a PEM file" in " ".join(done.err.split())
        assert ("ROOT_KEY" if words[0] == "trust" else "--root-key") in done.err


@pytest.mark.parametrize("text", ["", "\n", "# root_public_key = ...\n", "require = []\n"])
def test_a_policy_that_asks_for_nothing_is_none(tmp_path, text):
    (tmp_path / "trust.toml").write_text(text)
    with pytest.raises(PolicyError) as caught:
        read_policy(tmp_path / "trust.toml")
    assert caught.value.code is Code.POLICY_MALFORMED
    assert "trust init" in caught.value.finding.advice
