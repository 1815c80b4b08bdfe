"""Sealing: a measurement bundle becomes a receipt.

A bundle comes from a machine that holds no key and deserves no trust, so nothing of it is believed before it was read
here:

1. the bundle is a directory or an uncompressed tar that holds ``bundle.json`` and ``blobs/<sha256>`` and nothing else;
2. ``bundle.json`` is canonical and fits its model;
3. the artifacts that it names are exactly the files that are there, byte for byte;
4. the receipt would be accepted: key, role, length, and whatever else the caller asks;
5. artifacts are stored first, the receipt is appended last. A crash in between leaves artifacts that nothing names.

Sealing a bundle that is sealed already appends nothing and names the entry that holds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from k3_ledger.ledger.core.framing import MAX_LINE
from k3_ledger.ledger.regular import open_regular
from k3_ledger.ledger.writer.batch import Draft, refusal
from k3_ledger.ledger.writer.blobs import BLOCK, check_length, check_publishable, put_blob
from k3_ledger.ledger.writer.disk import storage_errors
from k3_ledger.ledger.writer.tarball import list_members
from k3_ledger.schemas.errors import BundleError, handed_in
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import BinaryIO

    from k3_ledger.ledger.writer.append import Writer
    from k3_ledger.ledger.writer.batch import Receipt
    from k3_ledger.ledger.writer.store import Ledger
    from k3_ledger.schemas.findings import Finding

    BundleCheck = Callable[["Bundle", "BundleFiles"], Iterable[Finding]]
    """Semantics that another room knows: findings about a bundle that is about to be sealed."""

BUNDLE_NAME = "bundle.json"
BLOBS_PREFIX = "blobs/"


class BundleFiles(Protocol):
    """Where a bundle's files come from."""

    @property
    def source(self) -> str:
        """What to call the bundle in errors."""
        ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """Size in bytes of every file, by its path inside the bundle."""
        ...

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A file of the bundle, opened for reading."""
        ...


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was read and re-hashed; it can be sealed.

    Attributes:
        kind: kind of the entry it becomes.
        sha256: digest of ``bundle.json``, lower-case hexadecimal: the bundle's identity.
        body: body of the entry-to-be, this digest included.
        artifacts: digests of the artifacts it names, each once.
    """

    kind: str
    sha256: str
    body: dict[str, object]
    artifacts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sealed:
    """What became of a bundle.

    Attributes:
        index: position of its entry.
        identity: identity of its entry, lower-case hexadecimal.
        added: False when the bundle had been sealed before.
        artifacts_added: artifacts that were not in the store yet.
    """

    index: int
    identity: str
    added: bool
    artifacts_added: int


class DirectoryBundle:
    """A bundle as a directory. Symbolic links are not followed."""

    def __init__(self, root: Path) -> None:
        self.source = str(root)
        self._root = root
        self.sizes: dict[str, int] = {}
        with storage_errors(root, "read the bundle"):
            self._list(root, "")

    def _list(self, directory: Path, prefix: str) -> None:
        for item in sorted(os.scandir(directory), key=lambda item: item.name):
            info = item.stat(follow_symlinks=False)
            if stat.S_ISREG(info.st_mode):
                self.sizes[prefix + item.name] = info.st_size
            elif stat.S_ISDIR(info.st_mode) and prefix == "":
                self._list(directory / item.name, f"{item.name}/")
            else:
                raise _unexpected(self.source, prefix + item.name, "neither a file nor the folder blobs")

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """See :meth:`BundleFiles.open`."""
        path = self._root / name
        with storage_errors(path, "read the bundle"):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor
            yield file


class TarBundle:
    """A bundle as an uncompressed tar, with or without one folder around it."""

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        self._path = path
        with self._file() as file:
            members = list_members(file, file.seek(0, os.SEEK_END), self.source)
        folder = next((name.removesuffix(BUNDLE_NAME) for name in members if _is_bundle_json(name)), "")
        self._members = {name.removeprefix(folder): member for name, member in members.items()}
        self.sizes = {name: member.size for name, member in self._members.items()}

    @contextlib.contextmanager
    def _file(self) -> Iterator[BinaryIO]:
        with storage_errors(self._path, "read the bundle"):
            self._path.stat()
        with open_regular(self._path) as file:
            yield file

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """See :meth:`BundleFiles.open`."""
        member = self._members[name]
        with self._file() as file:
            file.seek(member.offset)
            yield io.BufferedReader(_Slice(file, member.size), BLOCK)


class _Slice(io.RawIOBase):
    """The next ``left`` bytes of a file."""

    def __init__(self, file: BinaryIO, left: int) -> None:
        self._file = file
        self._left = left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # a Buffer in stubs of 3.12
        data = self._file.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


def _is_bundle_json(name: str) -> bool:
    return name == BUNDLE_NAME or (name.count("/") == 1 and name.endswith(f"/{BUNDLE_NAME}"))


def read_bundle(path: Path) -> Bundle:
    """Read a bundle, a directory or a tar, and hold its files against what it says of them.

    Raises:
        BundleError, MalformedError, SchemaError: it could not be sealed as it stands.
    """
    files, bundle = _open(path)
    _check_files(files, bundle)
    return bundle


def _open(path: Path) -> tuple[BundleFiles, Bundle]:
    files: BundleFiles = DirectoryBundle(path) if path.is_dir() else TarBundle(path)
    return files, _read_description(files)


def _read_description(files: BundleFiles) -> Bundle:
    from k3_ledger.schemas.validate import parse_bundle  # noqa: PLC0415 - pydantic is slow to import

    place = Position(source=f"{files.source}/{BUNDLE_NAME}")
    size = files.sizes.get(BUNDLE_NAME)
    if size is None:
        raise BundleError(
            Code.BUNDLE_MISSING_FILE,
            f"there is no {BUNDLE_NAME}",
            position=Position(source=files.source),
            hint=f"give the directory (or a tar of it) that holds {BUNDLE_NAME}",
        )
    with files.open(BUNDLE_NAME) as file:
        data = file.read(MAX_LINE + 1)
    with handed_in(f"{files.source}/{BUNDLE_NAME}"):
        model = parse_bundle(data, position=place)
    digest = hashlib.sha256(data).hexdigest()
    sealed = model.sealed(digest)
    sizes: dict[str, int] = {}
    for number, artifact in enumerate(sealed.artifacts):
        if sizes.setdefault(artifact.sha256, artifact.size) != artifact.size:
            raise BundleError(
                Code.BUNDLE_MISMATCH,
                "one artifact is named with two sizes",
                position=Position(source=place.source, field=f"body.artifacts[{number}].size"),
                expected=str(sizes[artifact.sha256]),
                found=str(artifact.size),
            )
    return Bundle(model.kind, digest, sealed.model_dump(mode="json"), tuple(sizes))


def _check_files(files: BundleFiles, bundle: Bundle) -> None:
    """Hold the files against the artifacts: the names first, which costs nothing, then the contents."""
    wanted = {BLOBS_PREFIX + digest for digest in bundle.artifacts}
    for name in sorted(set(files.sizes) - wanted - {BUNDLE_NAME}):
        raise _unexpected(files.source, name, "not an artifact that bundle.json names")
    for name in sorted(wanted - set(files.sizes)):
        raise BundleError(
            Code.BUNDLE_MISSING_FILE,
            f"{BUNDLE_NAME} names an artifact that is not there",
            position=Position(source=f"{files.source}/{name}"),
            hint="copy the whole bundle again from the machine that made it",
        )
    artifacts = bundle.body["artifacts"]
    assert isinstance(artifacts, list)
    for artifact in artifacts:
        name = BLOBS_PREFIX + artifact["sha256"]
        if files.sizes[name] != artifact["size"]:
            raise _mismatch(files.source, name, f"{artifact['size']:,} bytes", f"{files.sizes[name]:,} bytes")
        check_length(artifact["size"], f"{files.source}/{name}")
    for digest in bundle.artifacts:
        with files.open(BLOBS_PREFIX + digest) as file:
            found, _ = check_publishable(file, f"{files.source}/{BLOBS_PREFIX}{digest}")
        if found != digest:
            raise _mismatch(files.source, BLOBS_PREFIX + digest, digest, found)


def _unexpected(source: str, name: str, why: str) -> BundleError:
    return BundleError(
        Code.BUNDLE_EXTRA_FILE,
        f"the bundle holds something that is {why}",
        position=Position(source=f"{source}/{name}"),
        expected=f"{BUNDLE_NAME} and {BLOBS_PREFIX}<sha256>, nothing else",
        hint="take it out, or name it in bundle.json",
    )


def _mismatch(source: str, name: str, expected: str, found: str) -> BundleError:
    return BundleError(
        Code.BUNDLE_MISMATCH,
        "an artifact is not what bundle.json says it is",
        position=Position(source=f"{source}/{name}"),
        expected=expected,
        found=found,
        hint="copy the bundle again from the machine that made it; if it is the same there, it was changed",
    )


def seal(
    ledger: Ledger,
    path: Path,
    writer: Writer,
    *,
    time: str | None = None,
    expect: str | None = None,
    check: BundleCheck | None = None,
) -> Sealed:
    """Seal the bundle at ``path``: store its artifacts, append its receipt.

    Args:
        ledger: the ledger that ``writer`` appends to.
        path: directory or tar.
        writer: signs with a runner key.
        time: claimed time of the receipt; None takes the writer's clock.
        expect: the id that whoever measured it was told, lower-case hexadecimal: a bundle that was edited since has
            another. None takes the bundle as it is.
        check: further semantics to hold the bundle to, its files included, before anything of it is stored.

    Raises:
        BundleError, MalformedError, SchemaError: the bundle cannot be sealed as it stands; nothing was stored.
        LedgerError: the key may not sign this; nothing was stored.
        StoreError: the storage refused; no receipt was appended.
    """
    files, bundle = _open(path)
    if expect is not None and bundle.sha256 != expect:
        raise BundleError(
            Code.BUNDLE_MISMATCH,
            "this is not the bundle that was expected: it was edited since, or is of another run",
            position=Position(source=f"{files.source}/{BUNDLE_NAME}"),
            expected=expect,
            found=bundle.sha256,
        )
    writer.check_may_sign(bundle.kind)
    _check_files(files, bundle)
    draft = Draft(bundle.kind, bundle.body, time)
    with writer.exclusive():
        if find_sealed(writer, bundle.sha256) is None:
            for finding in () if check is None else check(bundle, files):
                raise refusal(finding)
            writer.rehearse([draft])
    added = 0
    for digest in bundle.artifacts:
        with files.open(BLOBS_PREFIX + digest) as file:
            blob = put_blob(ledger, file)
        if blob.sha256 != digest:
            raise _mismatch(files.source, BLOBS_PREFIX + digest, digest, blob.sha256)
        added += blob.added
    with writer.exclusive():
        known = find_sealed(writer, bundle.sha256)
        receipt = known or writer.append_many([draft])[0]
    return Sealed(receipt.index, receipt.identity, known is None, added)


def find_sealed(writer: Writer, bundle: str) -> Receipt | None:
    """The entry that sealed the bundle with this digest, if there is one. Reads the log once, at memory speed."""
    # Only a receipt has this member, and inside a string its quotation marks would be escaped.
    return next((receipt for receipt, _ in writer.find(b'"bundle":"' + bundle.encode() + b'"')), None)
