"""Unpacks Debian's Go and its ``golang.org/x/mod`` into ``.cache/peers``, without installing anything.

Tests compare notes and proofs with what they say (tests/reference/go_peer.py), and skip that where it is absent. Uses
the standard library alone, and ``apt-get`` and ``dpkg-deb``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / ".cache" / "peers"
MODULES = "golang-golang-x-mod-dev"
SPARE = ("usr/share/doc", "usr/share/go-*/test", "usr/share/go-*/api", "usr/share/go-*/misc")
"""Parts of the packages that nothing here needs."""


def words(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Unpack, unless it is there already; the exit status says whether it is there now."""
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


if __name__ == "__main__":
    sys.exit(main())
