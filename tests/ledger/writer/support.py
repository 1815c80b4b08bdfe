"""What tests of the writer share: keys, small ledgers, failing disks, and a reader that knows nothing of the writer."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core.chain import genesis_prev
from k3_ledger.ledger.core.ed25519 import check_signature
from k3_ledger.ledger.core.framing import format_line, parse_line
from k3_ledger.ledger.writer.disk import Disk
from k3_ledger.ledger.writer.keys import PublicKey, Signer
from k3_ledger.ledger.writer.store import Ledger, NewKey
from k3_ledger.schemas import canonical
from k3_ledger.schemas.envelope import format_entry_around

if TYPE_CHECKING:
    from pathlib import Path

ORIGIN = "example.org/test"
ROLES = ("root", "log", "runner", "judge", "witness")
SIGNERS = {role: Signer(hashlib.sha256(b"test key " + role.encode()).digest()) for role in ROLES}
STRANGER = Signer(hashlib.sha256(b"test key stranger").digest())
TIME = "2026-03-01T12:00:00Z"
OPENING = 5
"""Entries of a fresh test ledger: genesis and four enrolments."""


def public(signer: Signer) -> PublicKey:
    return PublicKey(signer.public_key)


def new_ledger(path: Path, disk: Disk | None = None) -> Ledger:
    keys = [NewKey(role, f"{role}-1", public(SIGNERS[role])) for role in ROLES[1:]]  # type: ignore[arg-type]
    return Ledger.create(path, origin=ORIGIN, root=SIGNERS["root"], keys=keys, time=TIME, disk=disk)


def note(text: str) -> dict[str, Any]:
    return {"text": text, "artifacts": []}


def append_notes(ledger: Ledger, *texts: str, signer: Signer = SIGNERS["judge"]) -> None:
    with ledger.writer(signer, clock=lambda: TIME) as writer:
        for text in texts:
            writer.append("note", note(text))


def add_line(path: Path, signer: Signer, kind: str, body: dict[str, Any]) -> None:
    """Append an entry that no writer would: chained and signed, and nothing else asked."""
    last = read_entries(path)[-1]
    entry = format_entry_around(
        canonical.format(body), index=last["index"] + 1, key=signer.key_id, kind=kind, prev=last["identity"], time=TIME
    )
    with path.open("ab") as file:
        file.write(format_line(entry, signer.sign(b"k3-ledger/entry/v1\n" + entry)) + b"\n")


def read_entries(path: Path) -> list[dict[str, Any]]:
    """Entries of a log file, after its chain, encoding and signatures were checked the naive way."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    entries: list[dict[str, Any]] = []
    keys: dict[str, bytes] = {}
    for index, raw in enumerate(data.split(b"\n")[:-1]):
        line = parse_line(raw)
        entry = canonical.parse(line.entry)
        assert isinstance(entry, dict)
        body: Any = entry["body"]
        if index == 0:
            prev = genesis_prev(body["origin"]).hex()
            root = bytes.fromhex(body["root_public_key"])
            keys[hashlib.sha256(root).hexdigest()] = root
        assert entry["index"] == index
        assert entry["prev"] == prev
        check_signature(
            keys.get(str(entry["key"]), STRANGER.public_key), b"k3-ledger/entry/v1\n" + line.entry, line.sig
        )
        if entry["kind"] == "key":
            keys[body["key_id"]] = bytes.fromhex(body["public_key"])
        prev = hashlib.sha256(line.entry).hexdigest()
        entries.append({**entry, "identity": prev})
    return entries


def notes(path: Path) -> list[str]:
    """Texts of the notes in a log, in order."""
    return [entry["body"]["text"] for entry in read_entries(path) if entry["kind"] == "note"]


# ------------------------------------------------------------------------------------------------------- disks


class RecordingDisk(Disk):
    """Notes the name of every call. Nothing is really synced: no test here pulls the plug, and it takes time."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def meet(self, name: str) -> None:
        """Called in front of every call."""
        self.calls.append(name)

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        self.meet("open")
        return super().open(path, flags, mode)

    def read(self, fd: int, count: int, offset: int) -> bytes:
        self.meet("read")
        return super().read(fd, count, offset)

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self.meet("write")
        return super().write(fd, data)

    def fdatasync(self, fd: int) -> None:
        self.meet("fdatasync")

    def fsync(self, fd: int) -> None:
        self.meet("fsync")

    def ftruncate(self, fd: int, size: int) -> None:
        self.meet("ftruncate")
        super().ftruncate(fd, size)

    def rename(self, source: Path, target: Path) -> None:
        self.meet("rename")
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self.meet("unlink")
        super().unlink(path)

    def mkdir(self, path: Path) -> None:
        self.meet("mkdir")
        super().mkdir(path)

    def flock(self, fd: int, operation: int) -> None:
        if operation != fcntl.LOCK_UN:
            self.meet("flock")
        super().flock(fd, operation)

    def stat(self, path: Path) -> os.stat_result:
        self.meet("stat")
        return super().stat(path)

    def fstat(self, fd: int) -> os.stat_result:
        self.meet("fstat")
        return super().fstat(fd)


class FailingDisk(RecordingDisk):
    """Fails calls by name: the n-th (counted from 0 since :meth:`fail`) raises an error, once or from then on."""

    def __init__(self) -> None:
        super().__init__()
        self._plan: dict[str, tuple[int, int, bool]] = {}

    def fail(self, name: str, error: int, *, nth: int = 0, always: bool = False) -> None:
        self._plan[name] = (error, nth, always)

    def meet(self, name: str) -> None:
        super().meet(name)
        if name not in self._plan:
            return
        error, nth, always = self._plan[name]
        if nth:
            self._plan[name] = (error, nth - 1, always)
            return
        if not always:
            del self._plan[name]
        raise OSError(error, os.strerror(error))


class FullDisk(FailingDisk):
    """Takes ``room`` more bytes, the last write short, then has no space."""

    def __init__(self) -> None:
        super().__init__()
        self.room: int | None = None

    def write(self, fd: int, data: bytes | memoryview) -> int:
        if self.room is None:
            return super().write(fd, data)
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().write(fd, data[: self.room])
        self.room -= written
        return written


class Killed(BaseException):
    """The process is gone."""


class MortalDisk(RecordingDisk):
    """Dies at the n-th call since :meth:`arm`: before it, after it, or, for a write, half-way. Nothing happens then.

    The descriptors of a dead process are closed and its locks end, so closing and unlocking still work.
    """

    def __init__(self) -> None:
        super().__init__()
        self._left: int | None = None
        self._when = "before"
        self.dead = False

    def arm(self, step: int, when: str) -> None:
        self._left, self._when, self.dead = step, when, False

    def disarm(self) -> None:
        self._left, self.dead = None, False

    def meet(self, name: str) -> None:
        super().meet(name)
        if self.dead:
            raise Killed
        if self._left is None:
            return
        self._left -= 1
        if self._left < 0:
            self.dead = True
            if self._when == "before" or (self._when == "half" and name != "write"):
                raise Killed

    def _end(self) -> None:
        if self.dead:
            raise Killed

    def write(self, fd: int, data: bytes | memoryview) -> int:
        self.meet("write")
        written = Disk.write(self, fd, data[: len(data) // 2] if self.dead and self._when == "half" else data)
        self._end()
        return written

    def fdatasync(self, fd: int) -> None:
        super().fdatasync(fd)
        self._end()

    def fsync(self, fd: int) -> None:
        super().fsync(fd)
        self._end()

    def ftruncate(self, fd: int, size: int) -> None:
        super().ftruncate(fd, size)
        self._end()

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._end()

    def mkdir(self, path: Path) -> None:
        super().mkdir(path)
        self._end()

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._end()

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        fd = super().open(path, flags, mode)
        if self.dead:
            os.close(fd)
            raise Killed
        return fd


# ----------------------------------------------------------------------------------------------------- bundles


def bundle_body(artifacts: list[dict[str, Any]]) -> dict[str, Any]:
    from tests.schemas.examples import run_body

    body = run_body()
    del body["bundle"]
    return {**body, "artifacts": artifacts}


def artifact(content: bytes, name: str) -> dict[str, Any]:
    return {
        "media_type": "text/plain",
        "name": name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
    }


def write_bundle(path: Path, contents: dict[str, bytes], *, body: dict[str, Any] | None = None) -> Path:
    """A bundle directory that holds these artifacts."""
    if body is None:
        body = bundle_body([artifact(content, name) for name, content in contents.items()])
    (path / "blobs").mkdir(parents=True)
    document = {"schema": "k3-ledger/bundle/1", "kind": "run", "body": body}
    (path / "bundle.json").write_bytes(canonical.format(document))
    for content in contents.values():
        (path / "blobs" / hashlib.sha256(content).hexdigest()).write_bytes(content)
    return path


def tar_of(bundle: Path, prefix: str = "", *, format: int = tarfile.USTAR_FORMAT) -> bytes:  # noqa: A002
    """An uncompressed tar of a bundle directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=format) as tar:
        for path in sorted(bundle.rglob("*")):
            tar.add(path, prefix + str(path.relative_to(bundle)), recursive=False)
    return out.getvalue()


def load_json(text: str) -> Any:
    return json.loads(text)
