"""Opens a model: one file, or every shard of a split one, agreeing with one another.

A split model is complete or refused: its names say ``-00001-of-00003.gguf``, each part carries ``split.no`` (from
0), ``split.count`` and ``split.tensors.count`` (the total over all parts), and no tensor stands in two parts. The first
part speaks for the model; where a later one says a key too, it says the same. A part that is no regular file is not
opened: a named pipe would be waited for for ever.
No part is mapped: a file that somebody cuts short, or a disk that fails, under a map ends the process with SIGBUS,
which nobody can put into words. Bytes are read where they are asked for; what is not there any more is an error.
Expert tensors are held against the expert count here, because a loader that does not match them by name or that
takes three experts for four computes another model without a word.
"""

from __future__ import annotations

import os
import re
import stat
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final, Self

import numpy as np
import numpy.typing as npt

from k3_ledger.engine.gguf.arrays import Texts
from k3_ledger.engine.gguf.header import (
    MAX_HEADER_BYTES,
    MAX_TENSORS,
    MAX_TEXTS,
    Header,
    TensorInfo,
    Value,
    parse_header,
)
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

_SHARD: Final = re.compile(r"^(?P<stem>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf$")
_SPLIT_KEYS: Final = ("split.no", "split.count", "split.tensors.count")
_OF_A_PART: Final = frozenset({*_SPLIT_KEYS, "general.alignment"})
"""Keys that are about a part and not about the model."""
_SHOWN: Final = 80
_PIECE: Final = 1 << 20
"""Bytes of a header that are read at once."""
MAX_SHARDS: Final = 4096


@dataclass(frozen=True, slots=True)
class TensorView:
    """A tensor and its stored bytes, which are read from the file where they are asked for.

    Attributes:
        info: the tensor, as the header describes it.
        shard: the part that it stands in.
    """

    info: TensorInfo
    shard: Shard

    @property
    def raw(self) -> npt.NDArray[np.uint8]:
        """All of it, ``[rows, row bytes]``: all outer dimensions flattened into rows. A copy, the caller's own.

        Raises:
            ModelError: GGUF_LENGTH, UNREADABLE: the file lost them, or the system cannot read them.
        """
        return self.rows(0, self.count)

    @property
    def count(self) -> int:
        """Rows of it."""
        return self.info.size // self._row_bytes

    def rows(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """The rows from ``start`` up to ``stop``, as many as there are; see :attr:`raw`."""
        width, stop = self._row_bytes, min(stop, self.count)
        offset = self.shard.header.data_offset + self.info.offset + start * width
        out = np.empty((stop - start, width), dtype=np.uint8)
        self.shard.read_into(out.reshape(-1).data, offset)
        return out

    @property
    def _row_bytes(self) -> int:
        return self.info.storage.row_bytes(self.info.shape[-1])


class Shard:
    """One part, open.

    Raises:
        ModelError: it cannot be opened, or is no GGUF file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with _open_regular(path) as file:
                self.descriptor = os.dup(file.fileno())
        except OSError as error:
            raise self._unreadable(error) from error
        self.forget = weakref.finalize(self, os.close, self.descriptor)
        self.size = os.fstat(self.descriptor).st_size
        if self.size == 0:
            raise ModelError(Code.GGUF_MAGIC, "file is empty", position=Position(source=path.name))
        self.header: Header = parse_header(_Window(self), path.name)

    def read_into(self, target: memoryview, offset: int) -> None:
        """Fill ``target`` with the bytes from ``offset`` on.

        Raises:
            ModelError: GGUF_LENGTH, UNREADABLE.
        """
        if not self.forget.alive:
            raise ValueError("the file was closed")
        at = 0
        while at < len(target):
            try:
                count = os.preadv(self.descriptor, [target[at:]], offset + at)
            except OSError as error:
                raise self._unreadable(error) from error
            if not count:
                raise ModelError(
                    Code.GGUF_LENGTH,
                    "the file became shorter while it was read",
                    position=Position(source=self.path.name, byte_offset=offset + at),
                    expected=f"{self.size} bytes, as it had when it was opened",
                    found=f"{os.fstat(self.descriptor).st_size} bytes",
                    hint="leave the file alone while it is in use, and give it again whole",
                )
            at += count

    def _unreadable(self, error: OSError) -> ModelError:
        reason = error.strerror or str(error)
        return ModelError(
            Code.UNREADABLE, f"cannot read {self.path.name}: {reason}", position=Position(source=self.path.name)
        )


class _Window:
    """A part as the parser of headers takes it: of its length, and read a piece at a time."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._begin = 0
        self._held = b""

    def __len__(self) -> int:
        return self._shard.size

    def __getitem__(self, wanted: slice) -> bytes:
        start, stop, _ = wanted.indices(len(self))
        if not self._begin <= start <= stop <= self._begin + len(self._held):
            held = bytearray(min(max(stop - start, _PIECE), len(self) - start))
            self._shard.read_into(memoryview(held), start)
            self._begin, self._held = start, bytes(held)
        return self._held[start - self._begin : stop - self._begin]


def _open_regular(path: Path) -> BinaryIO:
    """Opens what is there without waiting for anybody, and gives it only if it is a regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise OSError("it is a directory" if stat.S_ISDIR(mode) else "it is a named pipe or a device")
    return os.fdopen(descriptor, "rb")


class ModelFile:
    """A checked container: header values of the first part, tensors of all parts.

    Attributes:
        values: header values without the ``split.*`` bookkeeping.
        tensors: every tensor by name, in file order.
        size: bytes of all parts.
        paths: the parts, in order, as they were named.
        descriptors: of the parts, open: whatever becomes of the names, these are the files that were read.
    """

    def __init__(self, shards: list[Shard]) -> None:
        self._shards = shards
        self.paths = [shard.path for shard in shards]
        self.descriptors = [shard.descriptor for shard in shards]
        self.size = sum(shard.size for shard in shards)
        self.values: Mapping[str, Value] = {
            key: value for key, value in shards[0].header.values.items() if key not in _SPLIT_KEYS
        }
        self._home: dict[str, Shard] = {}
        self.tensors: dict[str, TensorInfo] = {}
        for shard in shards:
            for name, info in shard.header.tensors.items():
                if name in self.tensors:
                    raise _shard_error(shard.path, f"tensor {name!r} stands in two parts", field=name)
                self.tensors[name] = info
                self._home[name] = shard

    def view(self, name: str) -> TensorView:
        """A tensor and its stored bytes. ``KeyError`` when there is none of that name."""
        info, shard = self.tensors[name], self._home[name]
        return TensorView(info, shard)

    def identities(self) -> list[tuple[int, ...]]:
        """What changes when anybody writes to a part; a clock of the kernel's is among it."""
        return [_identity(os.fstat(descriptor)) for descriptor in self.descriptors]

    def named(self) -> list[tuple[int, ...] | None]:
        """The same of the files that the parts' names lead to now; None where one leads nowhere."""
        found: list[tuple[int, ...] | None] = []
        for path in self.paths:
            try:
                found.append(_identity(path.stat()))
            except OSError:
                found.append(None)
        return found

    def pin(self, folder: Path) -> Path:
        """Gives the open files names of their own in an empty ``folder``, and returns that of the first part.

        Whoever opens these reads the very files that were checked and hashed, whatever stands under their old names.
        """
        for path, descriptor in zip(self.paths, self.descriptors, strict=True):
            (folder / path.name).symlink_to(f"/proc/{os.getpid()}/fd/{descriptor}")
        return folder / self.paths[0].name

    def close(self) -> None:
        """Closes the parts; no view can be read afterwards."""
        for shard in self._shards:
            shard.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _identity(state: os.stat_result) -> tuple[int, ...]:
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


def _shard_error(path: Path, message: str, *, field: str, expected: str = "", found: str = "") -> ModelError:
    return ModelError(
        Code.GGUF_SHARDS,
        message,
        position=Position(source=path.name, field=field),
        expected=expected or None,
        found=found or None,
    )


def _integer(header: Header, key: str, path: Path) -> int:
    value = header.values.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _shard_error(path, f"{key} is missing or is no integer", field=key, found=repr(value))
    return value


def _rest(first: Shard) -> list[Shard]:
    """Opens every part of the split that ``first`` belongs to, in order."""
    path = first.path
    count = _integer(first.header, "split.count", path)
    name = _SHARD.match(path.name)
    if name is None:
        raise _shard_error(path, "a part of a split needs a name like model-00001-of-00002.gguf", field="name")
    if int(name["count"]) != count or not 1 <= count <= MAX_SHARDS:
        raise _shard_error(
            path, "split.count contradicts the file name", field="split.count", expected=name["count"], found=str(count)
        )
    shards: list[Shard] = []
    headers = tensors = texts = 0
    for number in range(1, count + 1):
        part = path.with_name(f"{name['stem']}-{number:05d}-of-{count:05d}.gguf")
        if not part.exists():
            raise _shard_error(part, f"part {number} of {count} is missing", field="split.count", expected=str(count))
        shards.append(first if part == path else Shard(part))
        headers, tensors = headers + shards[-1].header.size, tensors + len(shards[-1].header.tensors)
        texts += sum(len(value) for value in shards[-1].header.values.values() if isinstance(value, Texts))
        if headers > MAX_HEADER_BYTES or tensors > MAX_TENSORS or texts > MAX_TEXTS:
            raise _shard_error(
                part,
                "the parts up to here have longer headers than one model may have",
                field="split.count",
                expected=f"at most {MAX_HEADER_BYTES} bytes, {MAX_TENSORS} tensors and {MAX_TEXTS} texts together",
                found=f"{headers} bytes, {tensors} tensors, {texts} texts",
            )
    return shards


def _agree(shards: list[Shard]) -> None:
    """Number, count and total of every part must say the same thing."""
    total = sum(len(shard.header.tensors) for shard in shards)
    seen: dict[int, str] = {}
    for number, shard in enumerate(shards):
        header, path = shard.header, shard.path
        count = _integer(header, "split.count", path)
        if count != len(shards):
            raise _shard_error(
                path, "parts disagree on their count", field="split.count", expected=str(len(shards)), found=str(count)
            )
        own = _integer(header, "split.no", path)
        if own in seen:
            raise _shard_error(path, f"split.no {own} is used twice, first by {seen[own]}", field="split.no")
        seen[own] = path.name
        if own != number:
            raise _shard_error(
                path, "split.no contradicts the file name", field="split.no", expected=str(number), found=str(own)
            )
        announced = _integer(header, "split.tensors.count", path)
        if announced != total:
            raise _shard_error(
                path,
                "parts hold another number of tensors than announced",
                field="split.tensors.count",
                expected=str(announced),
                found=str(total),
            )
    for shard in shards[1:]:
        _repeats(shards[0], shard)


def _repeats(first: Shard, other: Shard) -> None:
    """What a later part says of the model is what the first part says."""
    for key, value in other.header.values.items():
        if key in _OF_A_PART:
            continue
        wanted = first.header.values.get(key)
        if type(value) is not type(wanted) or value != wanted:
            raise _shard_error(
                other.path,
                f"{key} contradicts the first part, {first.path.name}",
                field=key,
                expected="no such key" if wanted is None else repr(wanted)[:_SHOWN],
                found=repr(value)[:_SHOWN],
            )


def _check_experts(file: ModelFile) -> None:
    """Expert tensors need an expert count, and as many experts as it says."""
    architecture = file.values.get("general.architecture")
    key = f"{architecture}.expert_count"
    declared = file.values.get(key)
    source = file.paths[0].name
    for info in file.tensors.values():
        if "_exps." not in info.name:
            continue
        if declared is None:
            raise ModelError(
                Code.MODEL_KEY_MISSING,
                f"{key} is missing while {info.name!r} holds experts",
                position=Position(source=source, field=key),
            )
        if info.shape[0] != declared:
            raise ModelError(
                Code.MODEL_TENSOR_SHAPE,
                f"{info.name!r} holds {info.shape[0]} experts where {declared} are declared",
                position=Position(source=source, field=info.name),
                expected=str(declared),
                found=str(info.shape[0]),
            )


def open_model_file(path: Path) -> ModelFile:
    """Opens ``path`` and, when it is a part of a split, every other part.

    Raises:
        ModelError: with the code of the first thing that is wrong, naming the file and the field.
    """
    first = Shard(path)
    split = "split.count" in first.header.values or _SHARD.match(path.name) is not None
    shards = [first]
    if split:
        shards = _rest(first)
        _agree(shards)
    file = ModelFile(shards)
    _check_experts(file)
    return file
