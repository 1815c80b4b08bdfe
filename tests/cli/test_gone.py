"""A log that is gone, or cut down to nothing: every hint that names a command names one that does what it says."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.ledger.writer.support import artifact

GONE = {"missing": None, "empty": b"", "cut": b'{"ent', "zeros": bytes(300)}
BESIDE = {
    "nothing": (),
    "the newest head": ("checkpoint",),
    "a kept head": ("checkpoints",),
    "artifacts": ("blobs",),
    "an index": ("index.sqlite",),
    "everything": ("checkpoint", "checkpoints", "blobs", "index.sqlite"),
}
COMMANDS = (
    "verify ledger", "ls -l ledger", "append note -b body.json -k log.pem -l ledger", "checkpoint -k log.pem -l ledger",
    "recover -l ledger", "index -l ledger", "prove 0 -l ledger", "init ledger --origin example.org/o -k root.pem",
    "tiles ledger", "key ls -l ledger",
)  # fmt: skip
INIT = "init ledger --origin example.org/o -k root.pem"


@pytest.fixture
def room(run, ledger, tmp_path):
    (tmp_path / "raw").write_bytes(b"raw")
    (tmp_path / "body.json").write_text(json.dumps({"text": "a note", "artifacts": [artifact(b"raw", "raw")]}))
    assert run("append", "note", "-b", "body.json", "-k", "log.pem", "-l", "ledger", "--artifact", "raw").code == 0
    assert run("checkpoint", "-k", "log.pem", "-l", "ledger").code == 0
    assert run("index", "-l", "ledger").code == 0
    return tmp_path


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("gone", GONE)
def test_every_hint_leads_somewhere(run, room, gone, beside):
    for name in BESIDE["everything"]:
        path = room / "ledger" / name
        if name not in BESIDE[beside]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    (room / "ledger" / "ledger.jsonl").unlink()
    if GONE[gone] is not None:
        (room / "ledger" / "ledger.jsonl").write_bytes(GONE[gone])
    shutil.copytree(room / "ledger", room / "as it was")
    for command in COMMANDS:
        shutil.rmtree(room / "ledger")
        shutil.copytree(room / "as it was", room / "ledger")
        done = run(*command.split())
        if done.code == 0:
            assert (command in (INIT, "recover -l ledger"), beside) == (True, "nothing"), command
            continue
        hints = " ".join(line for line in (done.out + done.err).splitlines() if "hint: " in line)
        away = "move the directory away" in hints
        if beside != "nothing" and not command.startswith(("verify", "prove")):
            assert away, (command, done.err)
        if away:
            (room / "ledger").rename(room / "away")
        follow = [word for word in ("recover", INIT) if re.search(rf"k3-ledger {word.split()[0]}\b", hints)]
        unseen = beside in ("artifacts", "an index") and command.startswith(("verify", "prove"))  # they read the log
        if "do not recover" not in hints and not unseen:
            for word in follow:
                words = word.split() if word == INIT else ["recover", "-l", "ledger"]
                cured = run(*words)
                assert cured.code == 0, (command, hints, cured.err)
        if away:
            shutil.rmtree(room / "ledger", ignore_errors=True)
            (room / "away").rename(room / "ledger")
