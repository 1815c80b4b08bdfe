"""Places that a command must not write to, whatever was asked for: what it reads, a ledger's own files, private keys.

A verifier writes nothing into what it verifies, and believes nothing that lies there: nothing vouches for itself. What
a command makes for its user never takes the place of a record, of a signed head, of a private key or of a head that a
reader remembers: none of them can be made again. And a ledger and a witness's memory are never one folder: what is
published with the one, or put back with the other, would go with both.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import typer

from k3_ledger.cli.kinds import ENOUGH, KEYS, Kind, looks_like
from k3_ledger.cli.sources import LOG_NAME, is_stream
from k3_ledger.ledger.regular import open_regular, read_up_to
from k3_ledger.schemas.errors import LedgerError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_A_LEDGER: Final = frozenset({
    LOG_NAME, "checkpoint", "checkpoints", "tile", "key-entries", "blobs", "timestamps", "recovered", ".incoming",
    ".gitattributes", "index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "index.sqlite-journal",
})  # fmt: skip
"""Names in a ledger's or a mirror's directory that are its own."""
_OF_A_WITNESS: Final = frozenset({"witness.json", "logs", "cosigned", "forks"})
"""Names in a witness's directory that are its memory."""


def subject_of(text: str | Path) -> Path | None:
    """Where on this machine the thing lies that an argument names; None for a stream and for an address elsewhere."""
    from k3_ledger.cli.remote import is_address, path_of

    name = os.fspath(text)
    path: Path | None = Path(name)
    if is_address(name):
        path = path_of(name)
    elif is_stream(name):
        path = None
    if path is None:
        return None
    return path.parent if path.name == LOG_NAME else path


def check_apart(place: Path | None, subject: Path | None, *, option: str) -> None:
    """Refuse a place inside what is verified, for something of the reader's own: what he trusts, or remembers.

    Raises:
        BadParameter: exit code 2.
    """
    if place is None or subject is None or not _lies_in(place, subject):
        return
    raise typer.BadParameter(
        f"{place} is a part of what is verified ({subject}): nothing vouches for itself, and nothing of the "
        "reader's is kept there; keep it somewhere else",
        param_hint=option,
    )


def check_spared(path: Path, *, reads: tuple[Path | str | None, ...], option: str) -> None:
    """Refuse to write where that would cost something that nothing brings back, --replace or not.

    Args:
        path: where a file is to be written.
        reads: what the command reads, as its user named it.
        option: which option names the place.

    Raises:
        BadParameter: exit code 2.
    """
    for name in reads:
        read = None if name is None else subject_of(name)
        if read is not None and not read.is_dir() and _is_same(path, read):
            raise typer.BadParameter(f"{path} is read by this very command; choose another file", param_hint=option)
    check_no_ledgers(path, option=option)
    check_no_key(path, option=option)


def check_no_ledgers(path: Path, *, option: str) -> None:
    """Refuse to write at a place that a ledger, a mirror or a witness has for its own files, even if none is there.

    Raises:
        BadParameter: exit code 2.
    """
    for here in _ways_to(path):
        for folder in here.parents:
            name = here.relative_to(folder).parts[0]
            owner = "ledger" if name in _OF_A_LEDGER and _is_ledger(folder) else None
            owner = "witness" if name in _OF_A_WITNESS and _is_witness(folder) else owner
            if owner is not None:
                raise typer.BadParameter(
                    f"{path} is a place of the {owner} in {folder}, and is never written over; choose another file",
                    param_hint=option,
                )


def check_mirror(folder: Path, ledger: Path) -> None:
    """Refuse to make a mirror out of another ledger, or inside a ledger's own places.

    Raises:
        BadParameter: exit code 2.
    """
    check_no_ledgers(folder, option="--out")
    if (folder / LOG_NAME).exists() and not _is_same(folder, ledger):
        raise typer.BadParameter(
            f"there is another ledger in {folder}, and it is never written over", param_hint="--out"
        )
    if _is_witness(folder):
        raise typer.BadParameter(f"there is a witness in {folder}; choose another folder", param_hint="--out")


def _lies_in(place: Path, subject: Path) -> bool:
    """Whether a place is another, or lies below it: by the name it was given, and by where links lead."""
    return any(_is_same(each, subject) for here in _ways_to(place) for each in (here, *here.parents))


def check_secret(path: Path, *, option: str) -> None:
    """Refuse a place for a private key in a ledger's or a mirror's directory: those are copied and published whole.

    Raises:
        BadParameter: exit code 2.
    """
    check_no_ledgers(path, option=option)
    for here in _ways_to(path):
        for folder in here.parents:
            if _is_ledger(folder):
                raise typer.BadParameter(
                    f"{path} lies in a log's folder, {folder}: who copies or publishes that would give the private key "
                    "away; choose a place outside",
                    param_hint=option,
                )


def check_no_key(path: Path, *, option: str) -> None:
    """Refuse to write over a private key, or over what a reader remembers of a log.

    Raises:
        BadParameter: exit code 2.
    """
    kept = _kept(path)
    if kept is not None:
        raise typer.BadParameter(
            f"{path} holds {kept}, and is never written over; choose another file", param_hint=option
        )


def check_begun(folder: Path, what: Literal["ledger", "witness"], *, option: str) -> None:
    """Refuse to begin a ledger or a witness inside a ledger, in a place of another, or in the very folder of one of the
    other kind: a ledger's folder is copied and published whole, and what another one holds is none of that.

    Raises:
        BadParameter: exit code 2.
    """
    check_no_ledgers(folder, option=option)
    for above in (above for here in _ways_to(folder) for above in here.parents if _is_ledger(above)):
        raise typer.BadParameter(
            f"{folder} lies in a log's folder, {above}, which is copied and published whole: choose a folder outside",
            param_hint=option,
        )
    if _is_ledger(folder) if what == "witness" else _is_witness(folder):
        other = "ledger" if what == "witness" else "witness"
        raise typer.BadParameter(f"there is a {other} in {folder}; choose another folder", param_hint=option)


def _ways_to(path: Path) -> Iterator[Path]:
    """A place with the links of its folder followed, and with those of its own too."""
    for here in (path.parent, path):
        try:
            found = here.resolve()
        except (OSError, RuntimeError):  # links in a circle: who opens it says so
            continue
        yield found / path.name if here is not path else found


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there
        return False


def _is_ledger(folder: Path) -> bool:
    try:
        return (folder / LOG_NAME).exists() or ((folder / "checkpoint").exists() and (folder / "tile").is_dir())
    except OSError:
        return False


def _is_witness(folder: Path) -> bool:
    try:
        return (folder / "witness.json").exists() or (folder / "cosigned").is_dir()
    except OSError:
        return False


def _kept(path: Path) -> str | None:
    """What of its user's stands there that nothing brings back; what cannot be looked at may be a key."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return None
        with open_regular(path) as stream:
            kind = looks_like(read_up_to(stream, ENOUGH))
    except FileNotFoundError:
        return None
    except (LedgerError, OSError):
        return "a private key" if os.path.lexists(path) else None
    if kind is Kind.MEMORY:
        return str(kind.value)
    return "a private key" if kind in KEYS else None
