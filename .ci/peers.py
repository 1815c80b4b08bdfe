"""Brings other makers' programs into ``.cache``, for tests to compare with; installs nothing outside it.

Debian's Go and its ``golang.org/x/mod`` are unpacked into ``.cache/peers``: notes and proofs are compared with what
they say (tests/reference/go_peer.py). A witness of another maker gets an environment of its own, ``.cache/witness``:
our client asks it, and its client asks our witness (tests/ledger/witness/test_other_makers.py). Tests skip what is
absent. Uses the standard library alone, ``apt-get``, ``dpkg-deb``, and a Python that the witness runs on.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = Path(__file__).resolve().parent.parent / ".cache" / "peers"
MODULES = "golang-golang-x-mod-dev"
WITNESS = TARGET.parent / "witness"
WITNESS_PACKAGES = ("aics-witness==0.1.0", "aics-tlog==0.2.1")
WITNESS_PYTHON = (3, 12)
"""The first Python that the witness runs on."""
SPARE = ("usr/share/doc", "usr/share/go-*/test", "usr/share/go-*/api", "usr/share/go-*/misc")
"""Parts of the packages that nothing here needs."""


def words(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def go() -> int:
    """Unpack Go, unless it is there already; the exit status says whether it is there now."""
    if TARGET.is_dir():
        print(f"{TARGET}: there already")
        return 0
    try:
        compiler = re.search(r"Depends: (golang-[\d.]+-go)", words("apt-cache", "depends", "golang-go"))
        if compiler is None:
            raise ValueError("apt knows no golang-go")  # noqa: TRY301 - every reason ends alike
        names = [compiler[1], compiler[1].removesuffix("go") + "src", MODULES]
        TARGET.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=TARGET.parent) as scratch:
            packages, tree = Path(scratch, "packages"), Path(scratch, "tree")
            packages.mkdir()
            subprocess.run(["apt-get", "-qq", "download", *names], check=True, cwd=packages)
            for package in sorted(packages.glob("*.deb")):
                subprocess.run(["dpkg-deb", "-x", package, tree], check=True)
            for pattern in SPARE:
                for path in tree.glob(pattern):
                    shutil.rmtree(path)
            tree.rename(TARGET)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"error: Go cannot be had here: {error}", file=sys.stderr)
        print("hint: install golang-go and golang-golang-x-mod-dev, or go without: the tests say so", file=sys.stderr)
        return 1
    print(f"{TARGET}: {', '.join(names)}")
    return 0


def witness() -> None:
    """Make the witness's environment, unless it is there already; where that fails it is said, and its tests skip."""
    if WITNESS.is_dir():
        print(f"{WITNESS}: there already")
        return
    python = next(filter(is_new_enough, interpreters()), None)
    if python is None:
        print(f"note: no Python {'.'.join(map(str, WITNESS_PYTHON))} for a witness of another maker", file=sys.stderr)
        return
    try:
        WITNESS.parent.mkdir(exist_ok=True)
        subprocess.run([python, "-m", "venv", WITNESS], check=True)
        subprocess.run([WITNESS / "bin/python", "-m", "pip", "install", "-q", *WITNESS_PACKAGES], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(WITNESS, ignore_errors=True)
        print(f"note: no witness of another maker can be had here: {error}", file=sys.stderr)
        return
    print(f"{WITNESS}: {', '.join(WITNESS_PACKAGES)}")


def interpreters() -> Iterator[str]:
    """Pythons on the search path, and those that pyenv keeps beside it."""
    for minor in range(WITNESS_PYTHON[1] + 3, WITNESS_PYTHON[1] - 1, -1):
        if found := shutil.which(f"python3.{minor}"):
            yield found
        kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
        yield from map(str, sorted(kept.glob(f"*/bin/python3.{minor}")))


def is_new_enough(python: str) -> bool:
    """Whether an interpreter runs and is one that the witness runs on; pyenv's stand-ins may start nothing."""
    asked = f"import sys, venv; sys.exit(sys.version_info < {WITNESS_PYTHON})"
    return subprocess.run([python, "-c", asked], check=False, capture_output=True).returncode == 0


def main() -> int:
    """Bring both. Without Go the exit status is 1; the witness is one more program to compare with."""
    status = go()
    witness()
    return status


if __name__ == "__main__":
    sys.exit(main())
