"""Hostile and damaged containers are refused in words, in a moment and in little memory."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import struct
import time
import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.engine.gguf import file as files
from k3_ledger.engine.gguf import header as headers
from k3_ledger.engine.gguf import open_model_file, parse_header, write_gguf
from k3_ledger.engine.gguf.arrays import Numbers
from k3_ledger.engine.gguf.types import F32
from k3_ledger.engine.gguf.writer import NewTensor
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from k3_ledger.engine.gguf.header import Value

HOSTILE = {
    "align_2p30": Code.GGUF_ALIGNMENT,
    "align_zero": Code.GGUF_ALIGNMENT,
    "bad_magic": Code.GGUF_MAGIC,
    "big_endian": Code.GGUF_BYTE_ORDER,
    "dup_key": Code.GGUF_DUPLICATE,
    "huge_array": Code.GGUF_LENGTH,
    "huge_n_kv": Code.GGUF_LENGTH,
    "huge_string": Code.GGUF_LENGTH,
    "version_99": Code.GGUF_VERSION,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_header_is_refused_under_50_mb_and_1_s(name: str, test_data: Callable[..., Path]) -> None:
    path = test_data("bug-cases", "cases", "45-gguf-hostile-header", f"{name}.gguf")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    begin = time.process_time()  # of this process: whatever else the machine does takes none of it
    with pytest.raises(ModelError) as caught:
        open_model_file(path)
    elapsed = time.process_time() - begin
    _, allocated = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.code is HOSTILE[name]
    assert caught.value.finding.position.source == path.name
    assert elapsed < 1
    assert allocated < 50e6
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 50e3  # kibibytes


def test_good_header_loads(test_data: Callable[..., Path]) -> None:
    with open_model_file(test_data("bug-cases", "cases", "45-gguf-hostile-header", "good.gguf")) as file:
        assert list(file.tensors) == ["token_embd.weight", "blk.0.ffn_gate_exps.weight"]
        assert file.values["tinymoe.expert_count"] == 4
        assert file.view("token_embd.weight").raw.shape == (4, 32)


SHARDS = {
    "missing-00001-of-00002": (Code.GGUF_SHARDS, "split.count"),
    "disagree-00001-of-00002": (Code.GGUF_SHARDS, "split.count"),
    "disagree-00002-of-00002": (Code.GGUF_SHARDS, "split.count"),
    "samefile-00001-of-00002": (Code.GGUF_SHARDS, "split.no"),
    "samefile-00002-of-00002": (Code.GGUF_SHARDS, "split.no"),
    "no_expert_keys": (Code.MODEL_KEY_MISSING, "tinymoe.expert_count"),
    "three_of_four_experts": (Code.MODEL_TENSOR_SHAPE, "blk.0.ffn_gate_exps.weight"),
}


@pytest.mark.parametrize("name", SHARDS)
def test_incomplete_weights_are_refused_naming_file_and_field(name: str, test_data: Callable[..., Path]) -> None:
    with pytest.raises(ModelError) as caught:
        open_model_file(test_data("bug-cases", "cases", "44-gguf-shards-experts", f"{name}.gguf"))
    code, field = SHARDS[name]
    assert caught.value.code is code
    assert caught.value.finding.position.field == field
    assert caught.value.finding.position.source is not None


@pytest.mark.parametrize("part", [1, 2])
def test_whole_split_loads_from_any_part(part: int, test_data: Callable[..., Path]) -> None:
    path = test_data("bug-cases", "cases", "44-gguf-shards-experts", f"ok-0000{part}-of-00002.gguf")
    with open_model_file(path) as file:
        assert len(file.tensors) == 2
        assert len(file.paths) == 2
        assert file.view("blk.0.ffn_gate_exps.weight").raw.shape == (32, 32)


def test_number_used_twice_is_named_as_such(test_data: Callable[..., Path]) -> None:
    with pytest.raises(ModelError, match="used twice, first by samefile-00001"):
        open_model_file(test_data("bug-cases", "cases", "44-gguf-shards-experts", "samefile-00001-of-00002.gguf"))


@pytest.mark.parametrize(("announced", "name"), [(2, "t"), (3, "t"), (2, "same")])
def test_parts_hold_as_many_tensors_as_they_announce(announced: int, name: str, tmp_path: Path) -> None:
    for number in range(2):
        values = {"split.no": number, "split.count": 2, "split.tensors.count": announced}
        tensor = NewTensor(name if name == "same" else f"t{number}", (8,), F32, lambda: [bytes(32)])
        write_gguf(tmp_path / f"m-0000{number + 1}-of-00002.gguf", values, [tensor])
    path = tmp_path / "m-00001-of-00002.gguf"
    if (announced, name) == (2, "t"):
        assert list(open_model_file(path).tensors) == ["t0", "t1"]
        return
    with pytest.raises(ModelError) as caught:
        open_model_file(path)
    assert caught.value.code is Code.GGUF_SHARDS
    assert caught.value.finding.position.field == ("same" if name == "same" else "split.tensors.count")


def _split(folder: Path, first: dict[str, Value], second: dict[str, Value]) -> Path:
    for number, values in enumerate((first, second)):
        split: dict[str, Value] = {"split.no": number, "split.count": 2, "split.tensors.count": 2}
        tensor = NewTensor(f"t{number}", (8,), F32, lambda: [bytes(32)])
        write_gguf(folder / f"m-0000{number + 1}-of-00002.gguf", values | split, [tensor])
    return folder / "m-00001-of-00002.gguf"


CONTRADICTIONS: dict[str, tuple[Value | None, Value]] = {
    "another value": (6, 7),
    "another type": (1, True),
    "another length": ((1, 2), (1, 2, 3)),
    "only in the later one": (None, -5.0),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_parts_that_contradict_one_another_are_refused_with_key_and_both_values(name: str, tmp_path: Path) -> None:
    said, contradicted = CONTRADICTIONS[name]
    path = _split(tmp_path, {"a.kept": "same"} | ({} if said is None else {"a.key": said}), {"a.key": contradicted})
    with pytest.raises(ModelError) as caught:
        open_model_file(path)
    finding = caught.value.finding
    assert (finding.code, finding.position.field) == (Code.GGUF_SHARDS, "a.key")
    assert finding.position.source == "m-00002-of-00002.gguf"
    assert (finding.expected, finding.found) == ("no such key" if said is None else repr(said), repr(contradicted))


def test_a_later_part_may_repeat_what_the_first_one_says(tmp_path: Path) -> None:
    path = _split(tmp_path, {"a.key": (1, 2), "a.other": "x"}, {"a.key": (1, 2), "general.alignment": 32})
    assert open_model_file(path).values == {"a.key": (1, 2), "a.other": "x"}


@pytest.mark.parametrize("part", [1, 2])
def test_a_named_pipe_is_not_waited_for_whichever_part_it_stands_for(part: int, tmp_path: Path) -> None:
    path = _split(tmp_path, {}, {})
    pipe = tmp_path / f"m-0000{part}-of-00002.gguf"
    pipe.unlink()
    os.mkfifo(pipe)
    with pytest.raises(ModelError, match="it is a named pipe or a device") as caught:
        open_model_file(path)
    assert (caught.value.code, caught.value.finding.position.source) == (Code.UNREADABLE, pipe.name)


def test_renamed_part_is_refused(test_data: Callable[..., Path], tmp_path: Path) -> None:
    folder = test_data("bug-cases", "cases", "44-gguf-shards-experts")
    shutil.copy(folder / "ok-00001-of-00002.gguf", tmp_path / "alone.gguf")
    with pytest.raises(ModelError, match="needs a name like"):
        open_model_file(tmp_path / "alone.gguf")


def _header(*, version: int = 3, tensors: int = 0, keys: bytes = b"", count: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, count) + keys + rest


def _key(name: str, kind: int, payload: bytes) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", kind) + payload


def _tensor(name: str, dims: tuple[int, ...], tag: int, offset: int) -> bytes:
    head = struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(dims))
    return head + struct.pack(f"<{len(dims)}QIQ", *dims, tag, offset)


REFUSED = {
    "boolean of 2": (_header(count=1, keys=_key("a", 7, b"\x02") + b"\0" * 8), Code.GGUF_VALUE),
    "unknown value type": (_header(count=1, keys=_key("a", 13, b"\0" * 8)), Code.GGUF_VALUE),
    "array of arrays": (_header(count=1, keys=_key("a", 9, struct.pack("<IQ", 9, 1) + b"\0" * 9)), Code.GGUF_VALUE),
    "text that is not UTF-8": (
        _header(count=1, keys=_key("a", 8, struct.pack("<Q", 2) + b"\xff\xfe")),
        Code.GGUF_VALUE,
    ),
    "long tensor name": (_header(tensors=1, rest=_tensor("n" * 64, (4,), 0, 0) + b"\0" * 64), Code.GGUF_LENGTH),
    "five dimensions": (_header(tensors=1, rest=_tensor("t", (1, 1, 1, 1, 1), 0, 0) + b"\0" * 64), Code.GGUF_TENSOR),
    "empty dimension": (_header(tensors=1, rest=_tensor("t", (4, 0), 0, 0) + b"\0" * 64), Code.GGUF_TENSOR),
    "half a block": (_header(tensors=1, rest=_tensor("t", (48,), 8, 0) + b"\0" * 64), Code.GGUF_TENSOR),
    "dimensions that overflow 64 bits": (
        _header(tensors=1, rest=_tensor("t", (2**62, 2**62), 0, 0) + b"\0" * 64),
        Code.GGUF_LENGTH,
    ),
    "tensor past the end": (_header(tensors=1, rest=_tensor("t", (1024,), 0, 0) + b"\0" * 64), Code.GGUF_LENGTH),
    "offset off the alignment": (_header(tensors=1, rest=_tensor("t", (8,), 0, 8) + b"\0" * 64), Code.GGUF_ALIGNMENT),
    "gap before a tensor": (_header(tensors=1, rest=_tensor("t", (8,), 0, 32) + b"\0" * 99), Code.GGUF_TENSOR),
    "tensors on top of one another": (
        _header(tensors=2, rest=_tensor("a", (8,), 0, 0) + _tensor("b", (8,), 0, 0) + b"\0" * (6 + 32)),
        Code.GGUF_TENSOR,
    ),
    "unknown storage type": (_header(tensors=1, rest=_tensor("t", (8,), 99, 0) + b"\0" * 64), Code.GGUF_QUANTISATION),
    "other storage": (
        _header(tensors=1, rest=_tensor("t", (256,), 12, 0) + b"\0" * 999),
        Code.GGUF_QUANTISATION,
    ),
    "same tensor twice": (
        _header(tensors=2, rest=_tensor("t", (8,), 0, 0) + _tensor("t", (8,), 0, 32) + b"\0" * 99),
        Code.GGUF_DUPLICATE,
    ),
    "bytes after the last tensor": (_header(tensors=1, rest=_tensor("t", (8,), 0, 0) + b"\0" * 999), Code.GGUF_TENSOR),
    "more keys than a header may have": (_header(count=65_537, keys=b"\0" * (13 * 65_537)), Code.GGUF_LENGTH),
}


def _array(kind: int, length: int, payload: bytes) -> bytes:
    return _key("a", 9, struct.pack("<IQ", kind, length) + payload)


COUNT = 1 << 18
FILLED = {
    "bytes": (0, bytes(range(256)) * (COUNT // 256)),
    "booleans": (7, bytes([0, 1]) * (COUNT // 2)),
    "short integers": (3, struct.pack("<h", 31_000) * COUNT),
    "long integers": (10, struct.pack("<Q", 2**63) * COUNT),
    "floats": (6, struct.pack("<f", 0.1) * COUNT),
    "doubles": (12, struct.pack("<d", 0.1) * COUNT),
    "empty texts": (8, struct.pack("<Q", 0) * COUNT),
    "texts of a character": (8, (struct.pack("<Q", 2) + "é".encode()) * COUNT),
    "texts of a word": (8, (struct.pack("<Q", 9) + b"fourteen!") * COUNT),
}


@pytest.mark.parametrize("name", FILLED)
def test_a_header_takes_little_more_than_it_is_long(name: str) -> None:
    """As objects, integers of two bytes took twenty times that; measured: at most 2.1 times, and 1.1 for numbers."""
    kind, payload = FILLED[name]
    data = memoryview(_header(count=1, keys=_array(kind, COUNT, payload)))
    tracemalloc.start()
    header = parse_header(data)
    kept, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(header.values["a"]) == COUNT  # type: ignore[arg-type]
    bound = 2.2 if kind == 8 else 1.2
    assert kept < bound * len(payload) + 100_000
    assert most < (bound + 1) * len(payload) + 100_000


@pytest.mark.parametrize("arrays", [(10,), (4, 6), (3, 3, 4), (0, 10)])
def test_texts_of_all_arrays_together_have_a_bound(arrays: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is read by itself: seven arrays of four million empty ones took a minute."""
    assert headers.MAX_TEXTS == 1 << 21
    keys = b"".join(
        _key(f"a{at}", 9, struct.pack("<IQ", 8, many) + bytes(8 * many)) for at, many in enumerate(arrays)
    ) + _key("n", 9, struct.pack("<IQ", 0, 64) + bytes(64))
    data = memoryview(_header(count=len(arrays) + 1, keys=keys))
    monkeypatch.setattr(headers, "MAX_TEXTS", 10)
    assert len(parse_header(data).values) == len(arrays) + 1
    monkeypatch.setattr(headers, "MAX_TEXTS", 9)
    with pytest.raises(ModelError, match=rf"too many texts up to .*a{len(arrays) - 1}") as caught:
        parse_header(data)
    assert caught.value.code is Code.GGUF_LENGTH


def test_an_array_reads_like_a_tuple() -> None:
    texts = ("", "é", "word")
    payload = b"".join(struct.pack("<Q", len(one.encode())) + one.encode() for one in texts)
    for kind, fill, wanted in (
        (3, struct.pack("<3h", 1, -2, 3), (1, -2, 3)),
        (6, struct.pack("<2f", 0.5, -2), (0.5, -2.0)),
        (7, b"\x00\x01", (False, True)),
        (8, payload, texts),
        (8, b"", ()),
        (3, b"", ()),
    ):
        read = parse_header(memoryview(_header(count=1, keys=_array(kind, len(wanted), fill) + b"\0" * 8))).values["a"]
        assert not isinstance(read, int | float | str)
        assert (tuple(read), len(read), repr(read)) == (wanted, len(wanted), repr(wanted))
        assert [type(one) for one in read] == [type(one) for one in wanted]
        assert read == wanted
        assert read != (*wanted, 1)
        assert read[1:] == wanted[1:]
        assert [read[at] for at in range(-len(wanted), len(wanted))] == [*wanted, *wanted]
        with pytest.raises(IndexError):
            read[len(wanted)]
    assert Numbers(np.zeros(2, dtype=np.int8)) != (False, False)
    assert len(repr(Numbers(np.zeros(1 << 20)))) < 200


def test_a_boolean_that_is_none_is_refused_where_it_stands() -> None:
    with pytest.raises(ModelError, match=r"a\[2\]' is a boolean of value 2|\[2\]") as caught:
        parse_header(memoryview(_header(count=1, keys=_array(7, 4, b"\x00\x01\x02\x03") + b"\0" * 8)))
    assert caught.value.code is Code.GGUF_VALUE


@pytest.mark.parametrize(("name", "limit"), [("MAX_HEADER_BYTES", 250), ("MAX_TENSORS", 1), ("MAX_TEXTS", 4)])
def test_parts_share_what_one_model_may_have(
    name: str, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of 4096 parts under the bound is no bound. A text array counts in every part that has it, also the same."""
    path = _split(tmp_path, {"a.same": ("x", ""), "a.first": ("y",)}, {"a.same": ("x", "")})
    assert len(open_model_file(path).tensors) == 2
    monkeypatch.setattr(files, name, limit)
    with pytest.raises(ModelError, match="the parts up to here") as caught:
        open_model_file(path)
    assert (caught.value.code, caught.value.finding.position.source) == (Code.GGUF_SHARDS, "m-00002-of-00002.gguf")


def test_parts_have_as_many_texts_together_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the text: as many as may be are taken, whichever parts they are in, and one more is told with their number."""
    for both in (0, 1, 2):
        folder = tmp_path / str(both)
        folder.mkdir()
        same: dict[str, Value] = {"a.same": ("é",) * both}
        path = _split(folder, same | {"a.first": ("",) * (5 - 2 * both)}, same)
        monkeypatch.setattr(files, "MAX_TEXTS", 5)
        open_model_file(path)
        monkeypatch.setattr(files, "MAX_TEXTS", 4)
        with pytest.raises(ModelError, match="the parts up to here") as caught:
            open_model_file(path)
        assert "5 texts" in str(caught.value.finding.found)
        where = "m-00002-of-00002.gguf" if both else "m-00001-of-00002.gguf"
        assert caught.value.finding.position.source == where


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_header_is_refused(name: str) -> None:
    data, code = REFUSED[name]
    with pytest.raises(ModelError) as caught:
        parse_header(memoryview(data))
    assert caught.value.code is code, str(caught.value)


def test_quantisation_is_named_when_the_format_has_a_name_for_it() -> None:
    with pytest.raises(ModelError, match="Q4_K"):
        parse_header(memoryview(REFUSED["other storage"][0]))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_after_the_magic_are_parsed_or_refused(data: bytes) -> None:
    with contextlib.suppress(ModelError):
        assert parse_header(memoryview(b"GGUF\x03\0\0\0" + data)).version == 3


def test_every_truncation_of_a_model_is_refused(synthetic: Callable[..., Path]) -> None:
    data = synthetic("tiny").read_bytes()
    header = parse_header(memoryview(data))
    for end in [*range(0, header.data_offset, 997), *range(header.data_offset, len(data), 100_003), len(data) - 33]:
        with pytest.raises(ModelError):
            parse_header(memoryview(data)[:end])


def test_missing_and_empty_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read"):
        open_model_file(tmp_path / "absent.gguf")
    (tmp_path / "empty.gguf").touch()
    with pytest.raises(ModelError, match="empty"):
        open_model_file(tmp_path / "empty.gguf")


@pytest.mark.parametrize("share", [0, 0.3, 0.7, 0.999999, 1])
def test_a_file_that_becomes_shorter_while_it_is_used_is_an_error_in_words(
    share: float, synthetic: Callable[..., Path], tmp_path: Path
) -> None:
    """Under a map of the file the process would be gone, with SIGBUS and without a word. The last is the control."""
    path = tmp_path / "m.gguf"
    path.write_bytes(synthetic("tiny").read_bytes())
    size = path.stat().st_size
    with open_model_file(path) as file:
        whole = {name: file.view(name).raw for name in file.tensors}
        views = {name: file.view(name) for name in file.tensors}
        os.truncate(path, int(size * share))
        ends = {name: view.shard.header.data_offset + view.info.offset + view.info.size for name, view in views.items()}
        for name, view in views.items():
            if ends[name] <= int(size * share):
                assert np.array_equal(view.raw, whole[name])
                continue
            with pytest.raises(ModelError, match="became shorter while it was read") as caught:
                _ = view.raw
            finding = caught.value.finding
            assert (finding.code, finding.position.source) == (Code.GGUF_LENGTH, "m.gguf")
            assert f"{int(size * share)} bytes" in str(finding.found)
    assert [end for end in ends.values() if end > int(size * share)] or share == 1
    with pytest.raises(ValueError, match="closed"):
        _ = next(iter(views.values())).raw


def test_a_header_that_becomes_shorter_while_it_is_read_is_an_error_in_words(
    synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(synthetic("tiny").read_bytes())
    monkeypatch.setattr(files, "_PIECE", 64)
    with open_model_file(path) as file:
        whole = dict(file.values)
    real = files.os.preadv

    def cut(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        if offset > 1000:
            os.truncate(path, 900)
        return real(descriptor, buffers, offset)

    with open_model_file(path) as file:
        assert dict(file.values).keys() == whole.keys(), "the control: in pieces of 64 bytes it is the same header"
    monkeypatch.setattr(files.os, "preadv", cut)
    with pytest.raises(ModelError, match="became shorter") as caught:
        open_model_file(path)
    assert caught.value.code is Code.GGUF_LENGTH


def test_a_disk_that_fails_is_an_error_in_words(
    synthetic: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with open_model_file(synthetic("tiny")) as file:
        monkeypatch.setattr(files.os, "preadv", fail)
        with pytest.raises(ModelError, match="Input/output error") as caught:
            _ = file.view("token_embd.weight").raw
    assert caught.value.code is Code.UNREADABLE


def test_reads_that_come_in_parts_are_put_together(
    synthetic: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read of more than 2 GiB always does."""
    real = files.os.preadv
    with open_model_file(synthetic("tiny")) as file:
        view = file.view("token_embd.weight")
        whole = view.raw
        assert np.array_equal(view.rows(3, 5), whole[3:5])
        assert np.array_equal(view.rows(view.count - 1, view.count + 9), whole[-1:])
        monkeypatch.setattr(files.os, "preadv", lambda handle, parts, at: real(handle, [parts[0][:101]], at))
        assert np.array_equal(view.raw, whole)
