"""A file of the user's own: what cannot be written is told from what cannot be read to be written."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from k3_ledger.cli.files import new_file
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


def failing(number: int, name: str | None = None) -> OSError:
    return OSError(number, os.strerror(number), *([] if name is None else [name]))


def refused(path: Path, write: Any) -> StoreError:
    with pytest.raises(StoreError) as caught, new_file(path, replace=False) as file:
        write(file)
    assert list(path.parent.iterdir()) == []
    return caught.value


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_read_that_fails_is_not_called_a_write(tmp_path: Path, number: int) -> None:
    def read(_: Any) -> None:
        raise failing(number)

    error = refused(tmp_path / "out", read)
    assert error.code is Code.UNREADABLE
    assert error.finding.message == (
        f"what was to be written to {tmp_path / 'out'} cannot be read: {os.strerror(number)}"
    )
    assert "cannot write" not in str(error)


def test_a_file_that_cannot_be_opened_to_be_read_is_named(tmp_path: Path) -> None:
    def read(_: Any) -> None:
        raise failing(errno.ENOENT, "/some/where/else")

    error = refused(tmp_path / "out", read)
    assert (error.code, error.finding.position.source) == (Code.UNREADABLE, "else")
    assert "/some/where/else" in str(error)


@pytest.mark.parametrize("how", ["write", "flush", "seek", "at the end"])
@pytest.mark.parametrize(("device", "mode"), [("/dev/full", os.O_WRONLY), ("/dev/null", os.O_RDONLY)])
def test_a_write_that_fails_is_still_one(tmp_path: Path, how: str, device: str, mode: int) -> None:
    """The control: whichever call it is that the system refuses, and whatever it says."""

    def write(file: Any) -> None:
        if how != "write":
            file.write(b"x")
        handle = os.open(device, mode)
        os.dup2(handle, file.fileno())
        os.close(handle)
        if how == "write":
            file.write(b"x" * (1 << 20))  # more than the buffer holds: nothing is left of it
        elif how != "at the end":
            getattr(file, how)(*([0] if how == "seek" else []))

    error = refused(tmp_path / "out", write)
    wanted = Code.DISK_FULL if device == "/dev/full" else Code.DISK_ERROR
    assert (error.code, error.finding.message) == (wanted, "cannot write the file")
    assert error.finding.position.source == str(tmp_path / "out")


def test_what_only_a_write_is_answered_is_a_write_wherever_it_comes_from(tmp_path: Path) -> None:
    def spool(_: Any) -> None:
        raise failing(errno.ENOSPC)

    assert refused(tmp_path / "out", spool).code is Code.DISK_FULL


def test_what_is_written_stands_there_whole(tmp_path: Path) -> None:
    with new_file(tmp_path / "out", replace=False) as file:
        assert file.write(b"abc") == 3
        file.flush()
        assert file.seek(1) == 1
        file.write(b"X")
    assert (tmp_path / "out").read_bytes() == b"aXc"
