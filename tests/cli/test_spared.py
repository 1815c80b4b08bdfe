"""Outputs never cost what cannot be made again: a ledger's own files, a private key, what is being read; and of two
writers to one free name exactly one wins.

Every option that names a file to write stands in ``OUTPUTS``, and a test holds that list against the commands.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import typer.main

from k3_ledger.cli import app, files
from tests.commands import runner
from tests.ledger.writer.support import TIME, artifact

OUTPUTS = {
    ("prove", "--out"): ("prove", "4", "-l", "ledger", "-o", "@", "--replace"),
    ("prove", "--out", "consistency"): ("prove", "--consistency", 4, 5, "-l", "ledger", "-o", "@", "--replace"),
    ("bundle pack", "--out"): ("bundle", "pack", "ledger", "--out", "@", "--replace"),
    ("export", "--out"): ("export", "ledger", "--dsse", "-k", "spare.pem", "-o", "@", "--replace"),
    ("timestamp request", "--out"): ("timestamp", "request", "ledger", "--out", "@", "--replace"),
    ("key endorse", "--out"): ("key", "endorse", "proposal", "-k", "root.pem", "--out", "@", "--replace"),
    ("frontier", "--picture"): ("frontier", "ledger", "--picture", "@", "--replace"),
    ("trust init", "--out"): ("trust", "init", "ledger", "--out", "@", "--replace"),
    ("key enrol", "--propose"): ("key", "enrol", "log", "spare.pub.pem", "-l", "ledger", "--propose", "@"),
    ("key rotate", "--propose"): ("key", "rotate", "log", "spare.pub.pem", "-l", "ledger", "--propose", "@"),
    ("key revoke", "--propose"): ("key", "revoke", "judge", "-l", "ledger", "--propose", "@"),
    ("key threshold", "--propose"): ("key", "threshold", "1", "-l", "ledger", "--propose", "@"),
    ("keygen", "PATHS"): ("keygen", "@"),
}
ELSEWHERE = {
    ("tiles", "--out"): "a folder: its tests are below",
    ("claims check", "--proofs"): "a folder: its tests are below",
    ("model synth", "OUT"): "needs the engine: tests/engine",
    ("run", "--out"): "makes a new folder: its test is below",
    ("bundle from", "--out"): "makes a new folder: its test is below",
}
WRITTEN = {"out", "picture", "propose", "proofs"}
PICTURE = ("frontier", "--picture")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A ledger with two heads, an artifact and a copy; keys; a proposal. Tests work in copies."""
    place = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)

        def run(*words: str) -> None:
            patch.setattr("sys.argv", ["k3-ledger", *words])
            with pytest.raises(SystemExit) as done:
                k3_ledger_main()
            assert not done.value.code, words

        run("keygen", *(f"{name}.pem" for name in ("root", "log", "judge", "spare", "other")))
        Path("words").write_text("a passphrase\n")
        run("keygen", "locked.pem", "--passphrase-file", "words")
        enrol = [word for role in ("log", "judge") for word in ("--enrol", f"{role}={role}.pub.pem")]
        run("init", "ledger", "--origin", "example.org/bench", "-k", "root.pem", *enrol, "--time", TIME)
        named = [artifact(b"a passphrase\n", "words")]
        Path("body.json").write_text(json.dumps({"text": "a note", "artifacts": named}))
        for _ in range(2):
            run("append", "note", "-b", "body.json", "--artifact", "words", "-l", "ledger", "-k", "judge.pem")
            run("checkpoint", "-l", "ledger", "-k", "log.pem")
        run("index", "-l", "ledger")
        run("key", "revoke", "judge", "--propose", "proposal", "-l", "ledger")
        shutil.copytree("ledger", "second")
        run("tiles", "ledger", "--out", "mirror")
        Path("old").write_text("an older one")
    return place


def k3_ledger_main() -> None:
    import k3_ledger.cli

    k3_ledger.cli.main()


@pytest.fixture
def run(desk, tmp_path, monkeypatch, capsys):
    shutil.copytree(desk, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    return runner(monkeypatch, capsys)


def everything() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


def spared() -> list[str]:
    """Places that no output may take."""
    return [
        *("ledger/ledger.jsonl", "ledger/checkpoint", "ledger/checkpoints/000000000005.note", "ledger/index.sqlite"),
        *("ledger/checkpoints/000000000099.note", "ledger/timestamps/1.tsr", "ledger/../ledger/checkpoint"),
        *("second/ledger.jsonl", "second/blobs/sha256/new", "mirror/checkpoint", "mirror/tile/0/000"),
        *("root.pem", "other.pem", "locked.pem", "spare.pem"),
    ]


def with_place(words: tuple[object, ...], place: str) -> list[str]:
    return [str(word).replace("@", place) for word in words]


@pytest.mark.parametrize("output", OUTPUTS, ids=" ".join)
def test_no_output_takes_a_place_of_a_ledger_or_of_a_private_key(run, output):
    if output == PICTURE:
        return
    Path("link").symlink_to("ledger")
    Path("to-the-log").symlink_to("ledger/ledger.jsonl")
    for place in [*spared(), "link/checkpoint", "to-the-log"]:
        before = everything()
        done = run(*with_place(OUTPUTS[output], place))
        said = " ".join(done.err.replace("│", " ").split())
        words = (
            ["stands there already"] if output[0] == "keygen" else ["read by this very command", "never written over"]
        )
        assert done.code == 2, (place, done)
        assert any(word in said for word in [*words, "is a place of the ledger in", "vouches for itself"]), (
            place,
            said,
        )
        assert everything() == before, place


@pytest.mark.parametrize("output", OUTPUTS, ids=" ".join)
@pytest.mark.parametrize("lost", [None, "witness.json"])
def test_no_output_takes_a_place_of_a_witness(run, output, lost):
    """Nor of one that lost its first file: what else it remembers is all that is left of it."""
    for name in ("witness.json", "logs/a.svg", "cosigned/a.svg", "forks/a.svg"):
        place = Path("state", name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("remembered")
    if lost is not None:
        Path("state", lost).unlink()
    for place in ("state/logs/a.svg", "state/cosigned/b.svg", "state/forks/a.svg", "state/../state/logs/a.svg"):
        before = everything()
        done = run(*with_place(OUTPUTS[output], place))
        assert (done.code, everything()) == (2, before), (place, done)
    assert run(*with_place(OUTPUTS[output], "state/beside.svg")).code == 0


@pytest.mark.parametrize("output", OUTPUTS, ids=" ".join)
@pytest.mark.parametrize("damage", ["", "a byte", "cut"])
def test_no_output_takes_the_place_of_what_a_reader_remembers(run, output, damage):
    """Without it the next visit is a first one, and a rollback goes unnoticed."""
    assert run("verify", "ledger", "--memory", "seen.svg").code == 0
    if damage:
        held = bytearray(Path("seen.svg").read_bytes())
        held[len(held) // 2] ^= 1
        Path("seen.svg").write_bytes(held if damage == "a byte" else held[:-40])
    Path("link.svg").symlink_to("seen.svg")
    for place in ("seen.svg", "link.svg"):
        before = everything()
        done = run(*with_place(OUTPUTS[output], place))
        said = " ".join(done.err.replace("│", " ").split())
        assert (done.code, everything()) == (2, before), (place, done)
        assert any(words in said for words in ("holds a memory of a verified head", "stands there already")), said


def test_a_witness_and_a_ledger_are_not_mixed(run):
    assert run("witness", "init", "state", "--name", "w.example/1", "-k", "other.pem").code == 0
    for words in (
        ("tiles", "ledger", "--out", "state"),
        ("tiles", "ledger", "--out", "state", "--replace"),
        ("tiles", "ledger", "--out", "state/logs"),
        ("init", "state", "--origin", "example.org/x", "-k", "root.pem"),
        *(("witness", "init", place, "--name", "w.example/2", "-k", "spare.pem") for place in ("ledger", "mirror")),
        ("witness", "init", "ledger/blobs", "--name", "w.example/2", "-k", "spare.pem"),
    ):
        before = everything()
        done = run(*words)
        assert (done.code, everything()) == (2, before), (words, done)
    Path("state/witness.json").unlink()
    assert run("tiles", "ledger", "--out", "state").code == 0  # it knew no log: nothing tells that it was a witness
    assert run("witness", "init", "empty", "--name", "w.example/2", "-k", "spare.pem").code == 0


@pytest.mark.parametrize("what", ["ledger", "witness"])
@pytest.mark.parametrize(
    "place", ["ledger/apart", "ledger/a/b", "link/apart", "ledger/../second/apart", "mirror/apart", "into", "linked"]
)
def test_nothing_is_begun_in_the_folder_of_a_ledger(run, place, what):
    """It would be copied and published with it."""
    Path("link").symlink_to("ledger")
    Path("into").symlink_to("ledger/new")
    Path("ledger/a").mkdir()
    Path("ledger/there").mkdir()
    Path("linked").symlink_to("ledger/there")
    assert run("tiles", "ledger", "--out", "mirror").code == 0
    begin = {
        "ledger": ("--origin", "example.org/x", "-k", "root.pem"),
        "witness": ("--name", "w.example/2", "-k", "spare.pem"),
    }[what]
    words = ("init",) if what == "ledger" else ("witness", "init")
    before = everything()
    done = run(*words, place, *begin)
    assert (done.code, everything()) == (2, before), done
    assert "which is copied and published whole: choose a folder outside" in " ".join(
        done.err.replace("│", " ").split()
    )
    Path("out").mkdir()
    for beside in ("ledger-2", "ledger/../beside", "out"):
        assert run(*words, beside, *begin).code == 0


def test_a_ledger_is_begun_beside_a_log_that_lies_in_a_folder_of_the_same_name_elsewhere(run):
    Path("a/ledger").mkdir(parents=True)
    assert run("init", "a/ledger/new", "--origin", "example.org/x", "-k", "root.pem").code == 0
    assert run("init", "a/ledger", "--origin", "example.org/x", "-k", "root.pem").code == 0, "a folder around one"


def test_a_witness_that_stands_in_a_ledger_s_folder_is_restored_there(run):
    assert run("witness", "init", "w", "--name", "w.example/1", "-k", "other.pem").code == 0
    assert run("witness", "add-log", "example.org/bench", "log.pub.pem", "-s", "w").code == 0
    shutil.copytree("w/logs", "ledger/logs")
    restored = run("witness", "init", "ledger", "--name", "w.example/1", "-k", "other.pem", "--restore")
    assert restored.code == 0, restored


@pytest.mark.parametrize(
    "place", ["ledger/k.pem", "ledger/a/k.pem", "link/k.pem", "ledger/../ledger/k.pem", "mirror/k.pem"]
)
def test_no_private_key_is_made_where_a_ledger_or_a_mirror_is_copied_from(run, place):
    Path("link").symlink_to("ledger")
    Path("ledger/a").mkdir()
    assert run("tiles", "ledger", "--out", "mirror").code == 0
    before = everything()
    done = run("keygen", place)
    assert (done.code, everything()) == (2, before)
    assert "would give the private key away; choose a place outside" in " ".join(done.err.replace("│", " ").split())
    assert run("keygen", "beside.pem").code == 0


@pytest.mark.parametrize(
    "place", ["ledger/blobs", "ledger/blobs/inner", "ledger/checkpoints", "link/tile", "state/logs"]
)
def test_no_ledger_is_begun_in_a_place_of_another_or_of_a_witness(run, place):
    Path("link").symlink_to("ledger")
    Path("state/logs").mkdir(parents=True)
    Path("state/witness.json").write_text("remembered")
    before = everything()
    done = run("init", place, "--origin", "example.org/inner", "--key", "root.pem")
    assert (done.code, everything()) == (2, before), done
    assert run("init", "apart", "--origin", "example.org/inner", "--key", "root.pem").code == 0


def test_a_picture_takes_no_such_place_either(run):
    for place in ("ledger/blobs/p.svg", "second/checkpoints/p.png", "key.svg", "to-the-log.svg"):
        shutil.copy("root.pem", "key.svg")
        if not os.path.lexists("to-the-log.svg"):
            Path("to-the-log.svg").symlink_to("ledger/ledger.jsonl")
        before = everything()
        assert run(*with_place(OUTPUTS[PICTURE], place)).code == 2, place
        assert everything() == before


@pytest.mark.parametrize("output", OUTPUTS, ids=" ".join)
def test_an_output_goes_where_nothing_is_lost(run, output):
    for place in ("new.svg", "ledger/new.svg")[: 1 if output[0] in {"keygen", "trust init"} else 2]:
        assert run(*with_place(OUTPUTS[output], place)).code == 0, place
        assert Path(place).stat().st_size
    if "--replace" in OUTPUTS[output] and output[0] != "trust init":
        Path("new.svg").write_text("an older one")
        assert run(*with_place(OUTPUTS[output], "new.svg")).code == 0
        assert Path("new.svg").read_bytes() != b"an older one"
    assert run("verify", "ledger").code == 0
    assert not list(Path().glob(".k3-ledger-*"))


@pytest.mark.parametrize("output", [one for one in OUTPUTS if one[0] not in ("keygen", "trust init")], ids=" ".join)
@pytest.mark.parametrize("links", [True, False], ids=["", "no hard links"])
def test_what_came_meanwhile_is_not_replaced_unasked(run, output, links, monkeypatch):
    """Two writers of one name: the second to end finds the first one's file, which was not there when it began."""
    words = [word for word in with_place(OUTPUTS[output], "new.svg") if word != "--replace"]
    publish = files.publish

    def late(aside, path, **options):
        path.write_text("the other writer's")
        publish(aside, path, **options)

    monkeypatch.setattr(files, "publish", late)
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refuse_links)
    done = run(*words)
    assert (done.code, "exists already" in done.err) == (2, True)
    assert Path("new.svg").read_text() == "the other writer's"
    assert not list(Path().glob(".*"))


def refuse_links(self: Path, target: Path) -> None:
    raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def test_a_file_system_without_hard_links_takes_outputs_too(run, monkeypatch):
    monkeypatch.setattr(Path, "hardlink_to", refuse_links)
    assert run("prove", "4", "-l", "ledger", "-o", "new").code == 0
    assert run("verify", "new").code == 0
    assert not list(Path().glob(".*"))


def test_another_refusal_of_the_name_is_said(run, monkeypatch):
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    done = run("prove", "4", "-l", "ledger", "-o", "new")
    assert (done.code, "[K3L-DISK-FULL]" in done.err, Path("new").exists()) == (3, True, False)
    assert not list(Path().glob(".*"))


def test_what_a_command_reads_is_not_its_output(run):
    import tarfile

    with tarfile.open("ledger.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        tar.add("ledger", ".")
    Path("claims.toml").write_text("")
    Path("here").symlink_to("ledger.tar")
    for name in ("ledger.tar", "./ledger.tar", "here"):
        for words in (
            ("prove", "4", "-l", "ledger.tar", "-o", name),
            ("bundle", "pack", "ledger.tar", "-o", name),
            ("export", "ledger.tar", "--dsse", "-k", "spare.pem", "-o", name),
        ):
            before = everything()
            assert run(*words, "--replace").code == 2, words
            assert everything() == before
    assert run("trust", "init", "ledger", "-o", "trust.toml").code == 0
    before = everything()
    for words in (
        ("bundle", "pack", "ledger", "--trust", "trust.toml", "-o", "trust.toml"),
        ("bundle", "pack", "ledger", "--root-key", "root.pub.pem", "-o", "root.pub.pem"),
        ("key", "endorse", "proposal", "-k", "root.pem", "-o", "proposal"),
        ("export", "ledger", "--dsse", "-k", "locked.pem", "--passphrase-file", "words", "-o", "words"),
    ):
        assert run(*words, "--replace").code == 2, words
        assert everything() == before


def test_an_endorsed_copy_replaces_nothing_unasked(run):
    done = run("key", "endorse", "proposal", "-k", "root.pem", "--out", "old")
    assert (done.code, Path("old").read_text()) == (2, "an older one")


def test_no_mirror_is_made_of_another_ledger_or_over_a_key(run):
    Path("keys").mkdir()
    shutil.copy("root.pem", "keys/checkpoint")
    Path("more", "checkpoints").mkdir(parents=True)
    shutil.copy("root.pem", "more/checkpoints/000000000005.note")
    for place in ("second", "ledger/blobs", "mirror/tile", "keys", "more"):
        before = everything()
        assert run("tiles", "ledger", "--out", place, "--replace").code == 2, place
        assert everything() == before
    for place in ("mirror", "ledger", "new"):
        assert run("tiles", "ledger", "--out", place).code == 0, place
    assert run("verify", "ledger").code == 0


def test_no_proof_of_a_claim_takes_such_a_place(run):
    claim = {
        "id": "x",
        "says": "60",
        "kind": "speed",
        "track": "decode@131072/slice/bf16/node",
        "tolerance": "rounding",
    }
    lines = [f'{name} = "{value}"' for name, value in claim.items()]
    Path("claims.toml").write_text("\n".join(["[[claim]]", *lines, "value = 60.0", ""]))
    before = everything()
    for place in ("ledger/checkpoints", "ledger/new/../blobs", "second/tile"):
        done = run("claims", "check", "claims.toml", "-a", "ledger", "--proofs", place)
        assert (done.code, "is a place of the ledger in" in " ".join(done.err.replace("│", " ").split())) == (
            2,
            True,
        ), done
        assert everything() == before
    assert run("claims", "check", "claims.toml", "-a", "ledger", "--proofs", "proofs").code == 1


def test_no_measurement_makes_its_folder_in_a_place_of_a_ledger(run):
    told = ("--node", "node", "--ran", "vllm bench latency", "--warmup", "1")
    Path("result.json").write_text("{}")
    Path("dangling").symlink_to("nowhere")
    for words in (("run",), ("bundle", "from", "vllm", "result.json", *told)):
        for place in ("ledger/timestamps", "ledger/blobs/sha256/new", "mirror/tile/x", "dangling"):
            before = everything()
            done = run(*words, "--out", place)
            said = " ".join(done.err.replace("│", " ").split())
            assert (done.code, "is a place of the ledger in" in said or "exists already" in said) == (2, True), done
            assert everything() == before
            assert not Path(place).exists()


def test_every_option_that_names_a_file_to_write_is_here():
    def walk(command, words):
        for name in list(getattr(command, "commands", ())):
            yield from walk(command.commands[name], (*words, name))
        if not hasattr(command, "commands"):
            yield " ".join(words), command

    found = set()
    for words, command in walk(typer.main.get_command(app), ()):
        for param in command.params:
            if type(param.type).__name__ == "_FilePath" and param.name in WRITTEN:
                found.add((words, next((name for name in param.opts if name.startswith("--")), param.name.upper())))
    listed = {(words, option) for words, option, *_ in OUTPUTS if words != "keygen"}
    assert found == listed | set(ELSEWHERE)
