"""Finds out what a user named: a ledger, a mirror, a proof file or an archive; on this machine or at an address."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, TypeGuard

from k3_ledger.cli import HELD
from k3_ledger.cli.files import writing
from k3_ledger.cli.given import LEDGER_FILE, explain, refuse, standing
from k3_ledger.cli.kinds import ENOUGH, Kind, looks_like
from k3_ledger.cli.sources import (
    LINES_TRIED,
    LOG_NAME,
    DirectorySource,
    is_stream,
    limited,
    open_stream,
    read_start,
)
from k3_ledger.ledger.core.lines import EntryWatch
from k3_ledger.ledger.regular import open_regular, read_stream
from k3_ledger.schemas.errors import LedgerError, MalformedError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from k3_ledger.cli.stores import Store, TarStore
    from k3_ledger.verify.mirror import TileSource
    from k3_ledger.verify.source import LogSource

MAX_PROOF = 12_000_000
"""Longest proof file that is read, in bytes."""
FIRST = 1 << 16
"""Bytes of a stream that are looked at before any of it is kept."""
CONSISTENCY_START = b'{"consistency":'
PROOF_STARTS = (b'{"checkpoint":', CONSISTENCY_START)
_LEFT_TO_THE_VERIFIER = frozenset(
    {*LEDGER_FILE.fits, Kind.TEXT, Kind.JSON, Kind.BINARY, Kind.BLANK, Kind.NOTE, Kind.TOML, Kind.HTML}
)
"""What a log may look like that was damaged; whether it is one is for the verifier to say."""
_TOPS_NAMED = 5
_TAR_MAGIC = b"ustar"
_TAR_MAGIC_AT = 257


@dataclass(frozen=True, slots=True)
class ProofNamed:
    """A proof file, read whole."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class PackNamed:
    """An offline bundle (docs/publishing.md), opened."""

    store: TarStore


Named: TypeAlias = "ProofNamed | PackNamed | LogSource"
"""What a command's argument can name."""


def is_log(named: Named) -> TypeGuard[LogSource]:
    """Whether it is a log, whole or in tiles, and no extract of one."""
    return not isinstance(named, ProofNamed | PackNamed)


def record_of(named: Named) -> LogSource | None:
    """The log that a reader is shown in what was named: the log itself, or the whole record in an offline bundle.

    None for an extract, and for a bundle whose list cannot be read, which its verification reports.
    """
    if is_log(named):
        return named
    if isinstance(named, PackNamed):
        from k3_ledger.cli.packed import read_list
        from k3_ledger.cli.stores import StoreLog

        with contextlib.suppress(LedgerError):
            return StoreLog(named.store) if read_list(named.store).entries is None else None
    return None


@contextlib.contextmanager
def opened(text: str, cache: Path | None = None) -> Iterator[Named]:
    """What a command's argument names; closed when the block ends.

    Args:
        text: a path or an address.
        cache: where to keep what is fetched; a directory that is gone afterwards when omitted.

    Raises:
        StoreError: nothing is there, or it cannot be read.
        MalformedError: it is an archive that is not acceptable.
    """
    from k3_ledger.cli.remote import is_address, path_of

    here = path_of(text)
    text = text if here is None else str(here)
    with contextlib.ExitStack() as stack:
        is_remote = here is None and is_address(text)
        if not is_remote:
            stack.enter_context(_naming(text))
        if is_remote:
            yield _open_address(text, cache, stack)
        elif here is None and is_stream(text):
            yield _open_path(_spooled(text, stack), stack, bare=True)
        else:
            yield _open_path(Path(text), stack)


@contextlib.contextmanager
def _naming(text: str) -> Iterator[None]:
    """Say of a file that turns out to be no log, while it is used, what it is."""
    found = None if is_stream(text) else standing(Path(text))
    try:
        yield
    except LedgerError as error:
        if error.code in (Code.NOT_A_LEDGER, Code.EMPTY_LEDGER, Code.UNREADABLE):
            explain(error, text, found, LEDGER_FILE)
        raise


@contextlib.contextmanager
def opened_ledger(text: str, cache: Path | None = None, *, tiles: bool = False) -> Iterator[LogSource | TileSource]:
    """A ledger or a mirror, and nothing else; with ``tiles``, the mirror where there are both.

    Raises:
        StoreError: as :func:`opened`, or what is named is no ledger.
    """
    with opened(text, cache) as named:
        if not is_log(named):
            kind = Kind.PROOF if isinstance(named, ProofNamed) else Kind.OFFLINE_BUNDLE
            raise StoreError(
                Code.UNREADABLE,
                f"this is {kind}, not a ledger or a mirror of one",
                position=Position(source=text),
                hint="give the ledger itself, a mirror of it, or a tar of either",
            )
        if isinstance(named, DirectorySource) and named.name != LOG_NAME:
            with named.log.open("rb") as file:
                refuse(named.name if is_stream(text) else text, file.read(ENOUGH), LEDGER_FILE, Code.NOT_A_LEDGER)
        yield (_mirror_beside(named) or named) if tiles else named


def held_ledger(path: Path) -> LogSource:
    """A ledger, a tar of one, or a mirror, open until the command that is running ends.

    Raises:
        StoreError: as :func:`opened_ledger`.
    """
    if path.name != LOG_NAME and (path.is_file() or _is_mirror(path)):
        return HELD.enter_context(opened_ledger(str(path)))
    _refuse_unpacked(path)
    return DirectorySource(path)


def _is_mirror(path: Path) -> bool:
    return not (path / LOG_NAME).exists() and (path / "tile").is_dir()


def _mirror_beside(source: LogSource) -> TileSource | None:
    """The tiles that stand beside a log at an address, if they are those of its newest signed head."""
    from k3_ledger.cli.stores import StoreLog, StoreMirror
    from k3_ledger.ledger.core.tiletree import TileMissingError
    from k3_ledger.verify.mirror import TileSource

    if not isinstance(source, StoreLog):
        return None
    mirror = TileSource(StoreMirror(source.store, source.cache))
    try:
        mirror.tree.check()
    except (TileMissingError, StoreError):
        return None
    return mirror


def _spooled(text: str, stack: contextlib.ExitStack) -> Path:
    """A copy on disk of what comes out of standard input or an open file descriptor: it is read more than once.

    Raises:
        MalformedError: its beginning shows that it is nothing that is read here.
        StoreError: it cannot be read, or goes on for more than :data:`~k3_ledger.cli.sources.MAX_STREAM` bytes; or
            there is no room for the copy.
    """
    import tempfile

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="k3-ledger-"))
    copy = Path(folder, "stdin")
    with writing(copy, "set TMPDIR to a folder with room"), copy.open("wb") as file:
        for block in _likely(limited(open_stream(text), text), copy.name):
            file.write(block)
    return copy


def _likely(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The blocks of a stream, as long as they can be what :func:`opened` reads: looked at before they are kept.

    Raises:
        MalformedError: they begin like another kind of file, or none of the first lines looks like an entry.
        StoreError: they begin like a proof, and go on for longer than one.
    """
    start = b""
    for block in blocks:
        start += block
        if len(start) >= FIRST:
            break
    _refuse_other(name, start[:ENOUGH])
    is_proof = _as_written(start).startswith(PROOF_STARTS)
    is_tar = start[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC)
    watch = None if is_proof or is_tar else EntryWatch(LINES_TRIED)
    total = 0
    for block in itertools.chain([start], blocks):
        total += len(block)
        if is_proof and total > MAX_PROOF:
            raise StoreError(
                Code.UNREADABLE, f"a proof is no longer than {MAX_PROOF} bytes", position=Position(source=name)
            )
        if watch is not None and watch.feed(block, position=Position(source=name)):
            watch = None
        yield block


def _open_path(path: Path, stack: contextlib.ExitStack, *, bare: bool = False) -> Named:
    from k3_ledger.cli.stores import DirectoryStore, TarStore

    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except OSError:  # a name that no file can have
        is_file = is_folder = False
    if is_folder and _is_mirror(path):
        return _mirror(DirectoryStore(path), None)
    if is_folder:
        _refuse_unpacked(path)
    if not is_file or path.name == LOG_NAME:  # whoever asks for the log is not answered by a proof in its place
        return DirectorySource(path)
    with open_regular(path) as stream:
        start = read_start(stream, path, ENOUGH)
    if _as_written(start).startswith(PROOF_STARTS):
        with open_regular(path) as stream:
            return ProofNamed(path.name, read_stream(stream, str(path), MAX_PROOF))
    if start[_TAR_MAGIC_AT:].startswith(_TAR_MAGIC):
        store = TarStore(path)
        stack.callback(store.close)
        return _in_archive(store)
    _refuse_other(path.name if bare else str(path), start)
    return DirectorySource(path)


def _refuse_unpacked(folder: Path) -> None:
    """Say so where a folder is what a bundle of some entries was unpacked into. One of the whole record is a ledger.

    Raises:
        MalformedError: it is.
    """
    from k3_ledger.ledger.core.pack import LIST_NAME

    if (folder / LIST_NAME).is_file() and not (folder / LOG_NAME).exists():
        raise MalformedError(
            Code.NOT_A_LEDGER,
            f"this is an offline bundle of some entries that was unpacked: {LIST_NAME} is there, and no {LOG_NAME}",
            position=Position(source=str(folder)),
            hint="verify the bundle itself, the tar: nothing has to be unpacked",
        )


def _refuse_other(name: str, start: bytes) -> None:
    """Say so where a file is certainly of another kind than is read here.

    Raises:
        MalformedError: it is.
    """
    start = _as_written(start)
    kind = looks_like(start)
    if kind not in _LEFT_TO_THE_VERIFIER:
        refuse(name, start, LEDGER_FILE, Code.EMPTY_LEDGER if kind is Kind.EMPTY else Code.NOT_A_LEDGER)


def _as_written(start: bytes) -> bytes:
    """The beginning of a file without what saving it as another kind of text put there. The verifier names that."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return start.decode("utf-16", errors="replace").encode(errors="replace")
    return start.removeprefix(b"\xef\xbb\xbf")


def _in_archive(store: TarStore) -> PackNamed | LogSource:
    from k3_ledger.cli.stores import StoreLog
    from k3_ledger.ledger.core.pack import LIST_NAME

    if LIST_NAME in store.members:
        return PackNamed(store)
    tops = sorted({name.partition("/")[0] for name in store.members if "/" in name})
    if not {LOG_NAME, "checkpoint"} & store.members.keys() and len(tops) > 1:
        raise MalformedError(
            Code.ARCHIVE_REFUSED,
            f"the tar holds {len(tops)} folders at its top and no ledger there",
            position=Position(source=store.name),
            expected="the files of one ledger, or one folder with them",
            found=", ".join(tops[:_TOPS_NAMED]),
            hint="pack one ledger: tar --format=ustar -cf ledger.tar -C LEDGER .",
        )
    return StoreLog(store) if LOG_NAME in store.members else _mirror(store, None)


def _mirror(store: Store, cache: Path | None) -> TileSource:
    from k3_ledger.cli.cache import Cache
    from k3_ledger.cli.stores import StoreMirror
    from k3_ledger.verify.mirror import TileSource

    return TileSource(StoreMirror(store, None if cache is None else Cache(cache, store.name)))


def _open_address(address: str, cache: Path | None, stack: contextlib.ExitStack) -> Named:
    """A ledger below the address, else a mirror below it, else the file at it."""
    import tempfile

    from k3_ledger.cli.cache import Cache
    from k3_ledger.cli.remote import RemoteStore
    from k3_ledger.cli.stores import StoreLog, TarStore
    from k3_ledger.schemas.addresses import file_name

    name = file_name(address)
    store = RemoteStore(address.removesuffix(f"/{LOG_NAME}"))
    kept = cache or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="k3-ledger-")))
    if _is_there(store, LOG_NAME):
        log = StoreLog(store, Cache(kept, store.name), spool=True)
        stack.callback(log.close)
        return log
    if _is_there(store, "checkpoint"):
        return _mirror(store, kept)
    stream = store.open("")
    if stream is None:
        raise StoreError(
            Code.REMOTE_UNREADABLE,
            f"neither {LOG_NAME} nor a checkpoint is there",
            position=Position(source=store.name),
        )
    with stream:
        start = _read_start(stream, _TAR_MAGIC_AT + len(_TAR_MAGIC))
        if start.startswith(PROOF_STARTS):
            data = start + read_stream(stream, store.name, MAX_PROOF)
            return ProofNamed(name, data)
        _refuse_other(name or store.name, start)
        if not start.endswith(_TAR_MAGIC, _TAR_MAGIC_AT):
            raise StoreError(
                Code.UNREADABLE, "not a ledger, a proof or an archive", position=Position(source=store.name)
            )
        # An archive is read in more than one place, so it is copied to disk first.
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="k3-ledger-"))
        copy = Path(folder, name or "archive.tar")
        with copy.open("wb") as file:
            file.write(start)
            for block in limited(stream, store.name):
                file.write(block)
    archive = TarStore(copy)
    stack.callback(archive.close)
    return _in_archive(archive)


def _is_there(store: Store, path: str) -> bool:
    stream = store.open(path)
    if stream is None:
        return False
    stream.close()
    return True


def _read_start(stream: BinaryIO, count: int) -> bytes:
    parts: list[bytes] = []
    while count > 0 and (block := stream.read(count)):
        parts.append(block)
        count -= len(block)
    return b"".join(parts)
