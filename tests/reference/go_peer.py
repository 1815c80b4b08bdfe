"""Asks Go's ``golang.org/x/mod/sumdb``, where it is on this machine: another implementation of notes and trees.

It is there when Debian's packages ``golang-go`` and ``golang-golang-x-mod-dev`` are installed, or after ``make peers``,
which unpacks them into ``.cache/peers`` of this tree. Nothing is fetched while tests run.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.support import ROOT

PROGRAM = Path(__file__).parent / "go" / "peer.go"
UNPACKED = ROOT / ".cache" / "peers"
MISSING = "no Go with golang.org/x/mod/sumdb on this machine: `make peers` unpacks Debian's"
_PACKAGE = "usr/share/gocode/src/golang.org/x/mod/sumdb/note"


@cache
def _toolchain() -> tuple[Path, Path, Path | None] | None:
    """The go command, the folder for GOPATH, and one for GOROOT where the command does not know it."""
    for top in (UNPACKED, Path("/")):
        if not (top / _PACKAGE).is_dir():
            continue
        gopath = top / "usr/share/gocode"
        unpacked = sorted(top.glob("usr/lib/go-1.*/bin/go"))
        if unpacked:
            return unpacked[-1], gopath, unpacked[-1].parent.parent
        if found := shutil.which("go"):
            return Path(found), gopath, None
    return None


def there_is_one() -> bool:
    """Whether :func:`ask` can be called."""
    return _toolchain() is not None


@cache
def _environment() -> dict[str, str]:
    found = _toolchain()
    assert found is not None
    _, gopath, goroot = found
    folder = ROOT / ".cache" / "go-build"
    folder.mkdir(parents=True, exist_ok=True)
    offline = {"GO111MODULE": "off", "CGO_ENABLED": "0", "GOFLAGS": "", "GOTOOLCHAIN": "local", "GOPROXY": "off"}
    places = {"GOPATH": str(gopath), "GOCACHE": str(folder), "HOME": str(folder)}
    return {"PATH": os.environ["PATH"], **offline, **places, **({"GOROOT": str(goroot)} if goroot else {})}


def ask(*questions: dict[str, Any]) -> list[dict[str, Any]]:
    """Answers to questions as ``peer.go`` spells them; bytes may be given as they are."""
    found = _toolchain()
    assert found is not None
    done = subprocess.run(
        [found[0], "run", str(PROGRAM)],
        input=json.dumps(questions, default=lambda data: base64.b64encode(data).decode()),
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers
