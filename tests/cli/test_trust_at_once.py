"""Several who add to one trust policy at once: every demand that was acknowledged stands in it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest
import typer.main

from k3_ledger.cli import app, files, policy_file, trust_commands
from k3_ledger.ledger.core.note import KeyType, Verifier, format_verifier_key
from k3_ledger.ledger.writer import locks
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify.policy import parse_policy
from tests import static_host
from tests.cli import test_options
from tests.ledgers import LOG, ROOT, RUNNER, small_ledger

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
        with pytest.raises(ZeroDivisionError), files.alone(path, "the file", wait=0):
            raise ZeroDivisionError


COMMANDS = {
    "init": ("init", "led", "--replace"),
    "require": ("add", "require", "schema"),
    "size": ("add", "size", "7"),
    "age": ("add", "age", "60"),
    "key": ("add", "key", ROOT.public.hex(), "--replace"),
    "origin": ("add", "origin", "example.org/bench", "--replace"),
    "witness": ("add", "witness", OTHER),
    "timestamps": ("add", "timestamps", "b.pem"),
    "attestation": ("add", "attestation", "--kind", "nvidia"),
}


def test_every_command_that_changes_a_policy_is_here():
    leaves = {said for said, _ in test_options.leaves(typer.main.get_command(app)) if said.startswith("trust ")}
    assert leaves - {"trust show"} == {
        "trust " + " ".join(words[: 1 + (words[0] == "add")]) for words in COMMANDS.values()
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_who_is_in_the_way_too_long_is_named_and_nothing_is_changed(command, run, path, tmp_path):
    """As of a ledger: the same words, the same exit code, and --wait."""
    static_host.lay_out(tmp_path / "led", static_host.ledger_files(small_ledger()))
    words = COMMANDS[command]
    place = ("--out" if command == "init" else "--trust", path)
    before = path.read_bytes()
    with files.alone(path, "the trust policy"):
        done = run("trust", *words, *place, "--wait", "0")
        link = path.with_name("link")
        link.symlink_to(path)
        linked = run("trust", *words, place[0], link, "--wait", "0")
    said = "this very process is writing to the trust policy; waited 0 s [K3L-LOCK-BUSY]"
    assert (done.code, said in done.err, done.out) == (3, True, ""), done
    assert (linked.code, said in linked.err) == (3, True), linked
    assert path.read_bytes() == before
    done = run("trust", *words, *place, "--wait", "0")
    assert done.code == 0, done
    assert path.read_bytes() != before or command == "origin"


def test_a_policy_in_another_file_of_the_folder_is_in_nobodys_way(run, path):
    path.with_name("other.toml").write_bytes(path.read_bytes())
    with files.alone(path.with_name("other.toml"), "the trust policy"), files.alone(path.parent / "new", "it"):
        assert run("trust", "add", "age", "60", "--trust", path, "--wait", "0").code == 0


def test_a_folder_that_may_not_be_read_may_be_written(run, path, monkeypatch):
    """To list a folder and to write in it are two rights."""
    really = os.open

    def opened(name, flags, *more, **named):
        if flags & os.O_ACCMODE == os.O_RDONLY and Path(name).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))
        return really(name, flags, *more, **named)

    monkeypatch.setattr(os, "open", opened)
    assert run("trust", "add", "age", "60", "--trust", path).code == 0
    with pytest.raises(StoreError) as caught, files.alone(path.with_name("absent"), "it"):
        pass
    assert caught.value.code is Code.ACCESS_DENIED


def test_where_no_file_is_two_are_kept_apart_by_the_folder(path):
    new = path.with_name("new")
    with files.alone(new, "it"):
        with pytest.raises(StoreError) as caught, files.alone(new, "it", wait=0):
            pass
        new.write_bytes(b"")
    assert caught.value.code is Code.LOCK_BUSY
    with files.alone(new, "it", wait=0), files.alone(path.with_name("newer"), "it", wait=0):
        pass


@pytest.mark.parametrize("kind", ["made", "replaced", "removed"])
def test_the_lock_is_on_what_stands_there_once_it_is_had(kind, path, monkeypatch):
    """Somebody makes, replaces or removes the file between the look and the lock."""
    target, really, seen = path.with_name("it"), locks.take_lock, []
    if kind != "made":
        target.write_bytes(b"old")

    def late(disk, fd, *more, **named):
        if not seen and kind == "removed":
            target.unlink()
        elif not seen:
            files.replace_file(target, b"new")
        seen.append(stat.S_ISDIR(os.fstat(fd).st_mode))
        really(disk, fd, *more, **named)

    monkeypatch.setattr(locks, "take_lock", late)
    with files.alone(target, "it"):
        other = os.open(target.parent if kind == "removed" else target, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
    assert seen == [kind == "made", kind == "removed"]


def test_a_file_that_goes_between_the_look_and_the_opening_is_looked_for_again(path, monkeypatch):
    target, really = path.with_name("it"), os.open
    target.write_bytes(b"old")

    def opened(name, *more, **named):
        if name == target:
            target.unlink()
        return really(name, *more, **named)

    monkeypatch.setattr(os, "open", opened)
    with files.alone(target, "it"):
        pass
    assert not target.exists()


def test_a_file_system_without_locks_keeps_nobody_from_his_policy(run, path, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    assert run("trust", "add", "age", "60", "--trust", path).code == 0
