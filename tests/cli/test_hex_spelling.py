"""Digests, keys and measurements have one spelling wherever somebody hands them in: lower-case hexadecimal."""

from __future__ import annotations

import pytest
from docs.examples.made_up_intel import World

from k3_ledger.schemas.errors import PolicyError
from k3_ledger.verify.policy import parse_policy
from tests.ledgers import ROOT
from tests.verify.polaris import make_log

KEY = ROOT.public.hex()
MEASURED = "c1" * 48

SPELLINGS = {
    "upper case": str.upper,
    "one digit in upper case": lambda text: (
        text[:1] + text[1:].replace(next(c for c in text[1:] if c.isalpha()), "A", 1)
    ),
    "0x in front": lambda text: f"0x{text}",
    "space behind": lambda text: f"{text} ",
    "space inside": lambda text: f"{text[:2]} {text[2:]}",
    "colons": lambda text: ":".join(text[at : at + 2] for at in range(0, len(text), 2)),
    "full-width digits": lambda text: text.translate({ord(digit): ord(digit) + 0xFEE0 for digit in "0123456789"}),
    "one digit short": lambda text: text[:-1],
    "one byte more": lambda text: f"{text}00",
}

COMMANDS = {
    "verify --root-key": ("verify", "ledger", "--root-key", "{root}"),
    "bundle pack --root-key": ("bundle", "pack", "ledger", "--out", "p.tar", "--root-key", "{root}"),
    "trust init --root-key": ("trust", "init", "ledger", "--out", "new.toml", "--root-key", "{root}"),
    "trust add root": ("trust", "add", "key", "{root}"),
    "key enrol": ("key", "enrol", "runner", "{spare}", "--ledger", "ledger", "--key", "root.pem"),
    "key rotate": ("key", "rotate", "runner", "{spare}", "--ledger", "ledger", "--key", "root.pem", "--unproven"),
    "key revoke": ("key", "revoke", "{runner}", "--ledger", "ledger", "--key", "root.pem"),
    "audit --public-key": ("audit", "polaris", "foreign", "--public-key", "{root}"),
    "audit --pin": ("audit", "polaris", "foreign", "--trust-dir", "certificates", "--pin", "mrtd={measured}"),
    "trust add attestation --pin": (
        *("trust", "add", "attestation", "--trust-dir", "certificates", "--pin", "mrtd={measured}"),
    ),
}

TABLES = {
    "root_public_key": (KEY, 'root_public_key = "{}"\n'),
    "a measurement": (MEASURED, '[attestation]\n[attestation.measurements]\nmrtd = ["{}"]\n'),
    "a measurement among good ones": (MEASURED, f'[attestation.measurements]\nrtmr0 = ["{MEASURED}", "{{}}"]\n'),
}


@pytest.fixture
def given(run, ledger, keys, tmp_path):
    """What stands in the commands above, in a folder in which they work."""
    assert run("checkpoint", "--ledger", "ledger", "--key", "log.pem").code == 0
    for name, data in make_log.build(make_log.draft()).items():
        path = tmp_path / "foreign" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "certificates").mkdir()
    for name, data in World().anchors():
        (tmp_path / "certificates" / name).write_bytes(data)
    (tmp_path / "trust.toml").write_text('origin = "example.org/bench"\n')
    return {name: key["public_key"] for name, key in keys.items()} | {"runner": keys["runner"]["key_id"]}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_takes_the_one_spelling_and_no_other(run, given, tmp_path, words):
    given["measured"] = MEASURED
    shown, log = {}, (tmp_path / "ledger/ledger.jsonl")
    before = log.read_bytes()
    for name, spelled in SPELLINGS.items():
        wrong = {key: spelled(text) for key, text in given.items()}
        done = run(*(word.format(**wrong) for word in words))
        assert done.code in ({2} if "--root-key" in words else {2, 3}), (name, done)
        assert done.out == ""
        assert log.read_bytes() == before, name
        assert (tmp_path / "trust.toml").read_text() == 'origin = "example.org/bench"\n'
        assert not any((tmp_path / made).exists() for made in ("p.tar", "new.toml"))
        shown[name] = done.err
    right = run(*(word.format(**given) for word in words))
    assert right.code in {0, 1}, right
    assert right.err not in shown.values()


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize(("text", "table"), TABLES.values(), ids=TABLES)
def test_a_policy_takes_no_other_spelling(text, table, spelled):
    parse_policy(table.format(text).encode())
    with pytest.raises(PolicyError):
        parse_policy(table.format(spelled(text)).encode())


def test_a_key_that_is_pasted_wrong_is_no_missing_file_but_a_file_called_so_is_read(run, given, tmp_path):
    spelled = f"0x{given['root']}"
    assert "is not 64 lower-case hexadecimal digits" in run("verify", "ledger", "--root-key", spelled).err
    assert "there is no file at all" in run("verify", "ledger", "--root-key", "0xroot").err
    for name in ("de ad", spelled):
        (tmp_path / name).write_bytes((tmp_path / "root.pub.pem").read_bytes())
        assert run("verify", "ledger", "--root-key", name).code == 0
