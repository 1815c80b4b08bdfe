"""Small files are read whole or refused, and what is not there is told from what cannot be read."""

from __future__ import annotations

import io
import os
import pickle

import pytest

from k3_ledger.ledger.regular import (
    RegularRange,
    names_in,
    open_regular,
    read_if_there,
    read_small,
    read_stream,
    stands_there,
)
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code


def refused(action, says: str) -> None:
    with pytest.raises(StoreError) as caught:
        action()
    assert caught.value.code is Code.UNREADABLE
    assert says in caught.value.finding.message


class OneByteAtATime(io.RawIOBase):
    """A stream whose reads are short, and whose third one fails where it is told to."""

    def __init__(self, *, fails: bool = False) -> None:
        self.left, self.fails = 5, fails

    def read(self, size: int = -1, /) -> bytes:
        if self.fails and self.left == 3:
            raise OSError(5, "")
        self.left -= 1
        return b"x" if self.left >= 0 else b""


def test_a_file_up_to_its_limit_is_read_and_a_longer_one_is_not(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_small(path, 5) == read_if_there(path, 5) == b"12345"
    refused(lambda: read_small(path, 4), "longer than 4 bytes")


def test_short_reads_are_continued(tmp_path):
    assert read_stream(OneByteAtATime(), "x", 9) == b"xxxxx"  # type: ignore[arg-type]
    refused(lambda: read_stream(OneByteAtATime(fails=True), "x", 9), "Input/output error: x")  # type: ignore[arg-type]


def test_nothing_is_told_from_a_link_to_nowhere(tmp_path):
    (tmp_path / "link").symlink_to("nowhere")
    assert not stands_there(tmp_path / "nothing")
    assert stands_there(tmp_path / "link")
    assert read_if_there(tmp_path / "nothing") is None
    refused(lambda: read_if_there(tmp_path / "link"), "No such file or directory")


def test_below_a_file_nothing_is_said_to_be_absent(tmp_path):
    (tmp_path / "file").touch()
    refused(lambda: stands_there(tmp_path / "file" / "below"), "Not a directory")


def test_a_link_is_followed_unless_told_otherwise(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as stream:
        assert stream.read() == b"x"
    refused(lambda: open_regular(tmp_path / "link", follow=False), "Too many levels of symbolic links")


def test_a_pipe_is_refused_at_once_and_its_descriptor_given_back(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    refused(lambda: open_regular(tmp_path / "pipe"), "not a regular file")
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_names_are_listed_in_order_of_folders_alone(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).touch()
    assert names_in(tmp_path) == ["a", "b"]
    assert names_in(tmp_path / "nothing") == []
    refused(lambda: names_in(tmp_path / "a"), "Not a directory")


def test_a_stretch_of_a_file_is_read_wherever_the_reader_was_pickled_to(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    reader = pickle.loads(pickle.dumps(RegularRange(path)))
    assert [reader.read(*stretch) for stretch in ((0, 5), (1, 2), (4, 9), (5, 1))] == [b"12345", b"23", b"5", b""]
    refused(lambda: reader.read(-1, 2), "Invalid argument")  # what a bad disk says differs in its number alone
    path.unlink()
    refused(lambda: reader.read(0, 5), "No such file")
    os.mkfifo(path)
    refused(lambda: reader.read(0, 5), "not a regular file")
