"""Makes the environment that is named: a venv with this tree's wheel and pinned dependencies.

Run by make with any Python 3.11; uses the standard library alone. An environment is rebuilt when a pin changed and
gets only a new wheel when the sources did. What goes wrong is said in words, with what to do about it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ("constraints.txt", "constraints-engine.txt", ".ci/environments.py")


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with one purpose.

    Attributes:
        purpose: what it is for, shown while it is made.
        wheel: what is asked of this tree: ``.`` with extras or none.
        then: further installs, one pip call each, in order.
    """

    purpose: str
    wheel: str
    then: tuple[tuple[str, ...], ...] = ()


ENVIRONMENTS = {
    "user": Environment("k3-ledger as a user installs it, no extras", "."),
    "test": Environment("tests, linters and type checkers; no torch", ".[dev,tee]"),
    "fuzz": Environment(
        "fuzzing: every parser with atheris where it can be had, and the reader of model headers; no torch",
        ".[test,tee,time,fuzz]",
        (("gguf", "numpy"),),
    ),
    "peers": Environment(
        "comparing with programs of other makers: an object store that speaks S3, its client, a witness",
        ".[test,remote,witness]",
        (("s3fs", "moto[s3,server]"),),
    ),
    "engine": Environment(
        "engine and kernel tests, with torch: the largest download",
        ".[test,tee]",
        (
            ("torch==2.13.0",),
            ("--constraint=constraints-engine.txt", "triton", "gguf", "numpy", "xllamacpp", "mypy"),
        ),
    ),
}


class InstallError(Exception):
    """A step that failed, with what to do about it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def run(command: list[str | Path], message: str, hint: str) -> None:
    """Run one command; its own output is shown, and failure becomes ``message`` and ``hint``."""
    if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
        raise InstallError(message, hint)


def pip(folder: Path, *what: str) -> None:
    """Install ``what`` into the environment at the pinned versions."""
    command: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install"]
    run(
        [*command, "--quiet", "--quiet", "--constraint", "constraints.txt", *what],
        f"pip could not install {' '.join(what)} into {folder.name}",
        "pip's own lines above name the package; a package index must be reachable and the disk not full",
    )


def pins() -> str:
    """Digest of everything that says which versions are installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = json.dumps([project["build-system"], project["project"], sys.version_info[:2]]).encode()
    return hashlib.sha256(b"".join([wanted, *((ROOT / pin).read_bytes() for pin in PINS)])).hexdigest()


def make(name: str) -> None:
    """Create or refresh environment ``name`` and mark it ready."""
    environment = ENVIRONMENTS[name]
    folder = ROOT / f".venv-{name}"
    ready = folder / "ready"
    wanted = pins()
    started = time.monotonic()
    if ready.exists() and ready.read_text(encoding="utf-8") == wanted:
        print(f"{folder.name}: installing this tree's wheel", flush=True)
        pip(folder, "--no-deps", "--force-reinstall", ".")
    else:
        print(f"{folder.name}: creating ({environment.purpose})", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        run(
            [sys.executable, "-m", "venv", folder],
            f"{sys.executable} could not create the environment {folder.name}",
            "venv and ensurepip must be there (Debian: apt-get install python3-venv) and this folder writable",
        )
        pip(folder, environment.wheel)
        for what in environment.then:
            print(f"{folder.name}: installing {' '.join(w for w in what if not w.startswith('-'))}", flush=True)
            pip(folder, *what)
    ready.write_text(wanted, encoding="utf-8")
    print(f"{folder.name}: ready after {time.monotonic() - started:.0f} s", flush=True)


def main() -> int:
    """Make the environments named on the command line."""
    try:
        for name in sys.argv[1:]:
            make(name)
    except InstallError as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
