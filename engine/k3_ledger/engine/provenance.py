"""Says which commit the source files that run are of. Reads git, and takes its word for nothing that bytes can show.

A repository that merely lies around the files, such as that of the folder in which somebody made a virtual environment,
says nothing of them: a commit is named only where it holds files of every folder that runs, at the very places where
they run, and where it and the kept difference together give every one of these files to the last byte.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from k3_ledger.engine.machine import Said, ask
from k3_ledger.schemas.measurement import Source

if TYPE_CHECKING:
    from collections.abc import Sequence

PATCH: Final = "source.patch"
"""Name of the artifact that holds the difference from the commit."""
_DIFFERENCE: Final = (
    *("diff", "--binary", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--unified=3", "--inter-hunk-context=0", "-O/dev/null"),
)
"""As ``git apply`` takes it, whatever the user has configured."""
_PART: Final = re.compile(rb"^diff --git ", re.MULTILINE)
"""Begins a file's part of a patch."""
_MADE: Final = re.compile(rb"^index [0-9a-f]+\.\.([0-9a-f]+)", re.MULTILINE)
"""The object id of what it makes of the file. Lines of contents begin otherwise."""


def sources_in(folder: Path) -> dict[Path, bytes]:
    """What can be read there, sorted: a link to nowhere, as editors leave beside an open file, is no source."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        with contextlib.suppress(OSError):  # it may go at any time
            if path.is_file():
                found[path] = path.read_bytes()
    return found


def source_manifest(folders: Sequence[Path]) -> bytes:
    """SHA-256 and path of every source file of these packages, one a line, sorted within each."""
    lines = []
    for folder in folders:
        for path, data in sources_in(folder).items():
            digest = hashlib.sha256(data).hexdigest()
            lines.append(f"{digest}  {folder.name}/{path.relative_to(folder).as_posix()}\n")
    return "".join(lines).encode()


def probe_source(folders: Sequence[Path]) -> tuple[Source | None, bytes]:
    """The commit that the source files in these folders are of, and their difference from it.

    Only ``*.py`` in these folders counts, which is what the manifest lists: what else the repository holds makes
    nothing dirty and is in no patch.

    Returns:
        The source, and the patch that makes of its commit's files those that are there: empty for clean ones. Files
        that git does not track are not in the patch, but make the source dirty. None where no repository tracks files
        of every folder, or it and the patch do not give the others to the last byte.
    """
    nothing = None, b""
    places = [folder.resolve() for folder in folders]
    top = _line(_git(places[0], "rev-parse", "--show-toplevel"))
    commit = _line(_git(places[0], "rev-parse", "HEAD"))
    if top is None or commit is None or not all(place.is_relative_to(top) for place in places):
        return nothing
    listed = _git(top, "--literal-pathspecs", "ls-tree", "-rz", commit, "--", *map(str, places))
    held = {} if listed.fault is not None else _objects(listed.data, top)
    if not all(any(path.is_relative_to(place) for path in held) for place in places):
        return nothing
    running = {path: data for place in places for path, data in sources_in(place).items()}
    known = sorted(str(path) for path in held.keys() | running.keys())
    said = _git(top, "--literal-pathspecs", *_DIFFERENCE, commit, "--", *known)
    named = _git(top, "--literal-pathspecs", *_DIFFERENCE, "--name-only", "-z", commit, "--", *known)
    if said.fault is not None or named.fault is not None:
        return nothing
    changed = [Path(top, os.fsdecode(path)) for path in named.data.split(b"\0")[:-1]]
    parts = _PART.split(said.data)[1:]
    gone = held.keys() - running.keys()
    if len(parts) != len(changed) or not gone <= set(changed):  # git was told to look away from one that is gone
        return nothing
    made = {path: found[1].decode() for path, part in zip(changed, parts, strict=True) if (found := _MADE.search(part))}
    untracked = False
    for path, data in running.items():
        name = _object(data, commit)
        if name in {held.get(path), made.get(path)}:
            continue
        if path in held:  # git was told to look away, or keeps other bytes than those that run
            return nothing
        untracked = True
    patch = said.data
    digest = hashlib.sha256(patch).hexdigest() if patch else None
    source = Source(commit=commit, dirty=untracked or bool(patch), patch_sha256=digest, clean_builds=0)
    return source, patch


def _git(place: Path | str, *words: str) -> Said:
    """What git says of a place, without what its caller's environment says of another repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    fixed = ("--no-replace-objects", "-c", "core.fsmonitor=false")
    return ask(["git", "-C", str(place), *fixed, *words], environment=environment)


def _line(said: Said) -> str | None:
    return None if said.fault is not None else os.fsdecode(said.data.removesuffix(b"\n"))


def _objects(listed: bytes, top: str) -> dict[Path, str]:
    """Object id of every source file of a commit, by where it lies."""
    found = {}
    for line in listed.split(b"\0")[:-1]:
        about, _, path = line.partition(b"\t")
        if path.endswith(b".py"):
            found[Path(top, os.fsdecode(path))] = about.split()[2].decode()
    return found


def _object(data: bytes, commit: str) -> str:
    """The name that git gives to these bytes, in a repository with such commits."""
    header = f"blob {len(data)}\0".encode()
    named = hashlib.sha1(header + data, usedforsecurity=False) if len(commit) == 40 else hashlib.sha256(header + data)
    return named.hexdigest()
