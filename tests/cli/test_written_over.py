"""What stands where proofs or a mirror go is not written over unasked."""

from __future__ import annotations

import pytest

from k3_ledger.ledger.writer.append import Draft
from k3_ledger.ledger.writer.keys import load_signer
from k3_ledger.ledger.writer.store import Ledger


@pytest.fixture
def mirrored(run, ledger):
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("tiles", ledger, "--out", "mirror").code == 0


def test_a_mirror_of_the_ledger_is_brought_up_to_date(run, ledger, mirrored, tmp_path):
    (tmp_path / "body.json").write_text('{"text": "a note"}')
    assert run("append", "note", "-b", "body.json", "-l", ledger, "-k", "judge.pem").code == 0
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("tiles", ledger, "--out", "mirror").code == 0
    assert (tmp_path / "mirror" / "checkpoint").read_bytes() == (ledger / "checkpoint").read_bytes()


@pytest.mark.parametrize("there", [b"another\n1\nAAAA\n", b"", b"my own words"])
def test_the_head_of_something_else_is_kept(run, ledger, mirrored, tmp_path, there):
    kept = tmp_path / "mirror" / "checkpoint"
    kept.write_bytes(there)
    done = run("tiles", ledger, "--out", "mirror")
    assert (done.code, "--replace" in done.err, kept.read_bytes()) == (2, True, there)
    assert run("tiles", ledger, "--out", "mirror", "--replace").code == 0
    assert kept.read_bytes() == (ledger / "checkpoint").read_bytes()


@pytest.mark.usefixtures("mirrored")
@pytest.mark.parametrize("place", ["checkpoint", "key-entries", "checkpoints"])
@pytest.mark.parametrize("what", [b"my own words", b"", None])
def test_what_no_mirror_of_this_ledger_left_there_is_kept(run, ledger, tmp_path, place, what):
    kept = (path.name for path in (ledger / "checkpoints").iterdir())
    name = f"checkpoints/{next(kept)}" if place == "checkpoints" else place
    there = tmp_path / "other" / name
    there.parent.mkdir(parents=True)
    there.write_bytes(b"" if what is None else what)
    if what is None:
        there.unlink()
        there.symlink_to(tmp_path / "nowhere")
    done = run("tiles", ledger, "--out", "other")
    assert (done.code, done.out, "--replace" in done.err, name in done.err) == (2, "", True, True), done
    assert sorted(path.name for path in (tmp_path / "other").rglob("*") if not path.is_dir()) == [there.name]
    assert what is None or there.read_bytes() == what
    assert run("tiles", ledger, "--out", "other", "--replace").code == 0
    assert there.read_bytes() == (tmp_path / "mirror" / name).read_bytes()


def test_a_mirror_that_was_cut_short_is_taken_up_where_its_heads_are_this_ledgers(run, ledger, mirrored, tmp_path):
    for name in ("checkpoint", "key-entries"):
        (tmp_path / "mirror" / name).unlink()
    assert run("tiles", ledger, "--out", "mirror").code == 0
    assert run("verify", "mirror").code == 0


@pytest.mark.usefixtures("mirrored")
def test_a_mirror_that_was_cut_short_before_its_first_head_is_taken_up(run, ledger, tmp_path):
    mirror = tmp_path / "mirror"
    whole = (mirror / "key-entries").read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) > 1
    for left in (whole, b"".join(lines[:1])):  # as it is now, and as it was when the ledger was shorter
        (mirror / "checkpoint").unlink()
        (mirror / "key-entries").write_bytes(left)
        assert run("tiles", ledger, "--out", "mirror").code == 0
        assert (mirror / "key-entries").read_bytes() == whole
    for foreign in (whole + b"x", whole + b"9\n", whole[:-1], b"9\n", b"\n", b"0" * (1 << 21)):
        (mirror / "checkpoint").unlink(missing_ok=True)
        (mirror / "key-entries").write_bytes(foreign)
        assert run("tiles", ledger, "--out", "mirror").code == 2, foreign[:40]
        assert (mirror / "key-entries").read_bytes() == foreign


def test_files_in_the_place_of_older_tiles_are_kept_unless_they_are_such_tiles(run, ledger, tmp_path):
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("tiles", ledger, "--out", "mirror").code == 0
    older = tmp_path / "mirror" / "tile" / "0" / "000.p"
    assert [path.name for path in older.iterdir()] == ["4"]
    (older / "notes").write_bytes(b"my own words")
    (older / "folder").mkdir()
    with Ledger.open(ledger).writer(load_signer(tmp_path / "log.pem")) as writer:
        writer.append_many([Draft("note", {"text": str(number), "artifacts": []}) for number in range(256)])
    assert run("checkpoint", "-l", ledger, "-k", "log.pem").code == 0
    assert run("tiles", ledger, "--out", "mirror").code == 0
    assert sorted(path.name for path in older.iterdir()) == ["folder", "notes"]
    assert run("verify", "mirror").code == 0
