from __future__ import annotations

import errno
import fcntl
import os
import threading
from contextlib import ExitStack

import pytest

from k3_ledger.ledger.writer import locks
from k3_ledger.ledger.writer.disk import Disk
from k3_ledger.ledger.writer.logfile import LogFile
from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import SIGNERS, FailingDisk, RecordingDisk, new_ledger, note, notes


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"")
    return path


@pytest.fixture
def opened(path):
    with ExitStack() as stack:

        def make(disk: Disk | None = None, *, wait: float = 0) -> LogFile:
            log = LogFile(disk or Disk(), path, lock_timeout_s=wait)
            stack.callback(log.close)
            return log

        yield make


def hold(path):
    """The lock, held by an open file description that is not a LogFile."""
    fd = os.open(path, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def test_second_writer_is_told_who_holds_the_ledger(path, opened):
    one, two = opened(), opened()
    with one.locked(), pytest.raises(StoreError) as caught, two.locked():
        pass
    assert caught.value.code is Code.LOCK_BUSY
    assert "this very process" in str(caught.value)
    with two.locked():
        pass


def test_holder_in_another_process_is_named_by_its_id(path, opened, monkeypatch, tmp_path):
    fd = hold(path)
    info = os.fstat(fd)
    table = tmp_path / "locks"
    place = f"{os.major(info.st_dev):02x}:{os.minor(info.st_dev):02x}:{info.st_ino}"
    table.write_text(
        f"1: POSIX  ADVISORY  WRITE 111 {place} 0 EOF\n"
        f"1: FLOCK  ADVISORY  WRITE 222 00:00:1 0 EOF\n"
        f"2: -> FLOCK  ADVISORY  WRITE 333 {place} 0 EOF\n"
        f"3: FLOCK  ADVISORY  WRITE 4242 {place} 0 EOF\n"
    )
    monkeypatch.setattr(locks, "_LOCK_TABLE", table)
    with pytest.raises(StoreError, match="process 4242 is writing"), opened().locked():
        pass
    table.write_text("")
    with pytest.raises(StoreError, match="another process is writing"), opened().locked():
        pass
    table.unlink()
    with pytest.raises(StoreError, match="another process is writing"), opened().locked():
        pass
    os.close(fd)


def test_waiting_ends_when_the_other_writer_does(path, opened):
    fd = hold(path)

    class Release(FailingDisk):
        tries = 0

        def flock(self, lock, operation):
            self.tries += 1
            if self.tries == 2:
                raise InterruptedError
            if self.tries == 4:
                os.close(fd)
            super().flock(lock, operation)

    disk = Release()
    with opened(disk, wait=60).locked():
        assert disk.tries == 4


def test_threads_of_one_process_queue_with_a_bound(path, opened):
    one, two = opened(), opened()
    caught: list[StoreError] = []

    def try_it() -> None:
        try:
            with two.locked():
                pass
        except StoreError as error:
            caught.append(error)

    with one.locked():
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert "another thread of this process" in str(caught[0])


def test_lock_is_reentrant_within_a_thread(path, opened):
    disk = RecordingDisk()
    log, other = opened(disk), opened()
    with log.locked():
        with log.locked():
            pass
        assert disk.calls.count("flock") == 1
        with pytest.raises(StoreError), other.locked():
            pass
    with other.locked():
        pass


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOTSUP])
def test_file_system_without_locks_is_named_with_the_cure(path, opened, error):
    disk = FailingDisk()
    log = opened(disk)
    disk.fail("flock", error)
    with pytest.raises(StoreError) as caught, log.locked():
        pass
    assert caught.value.code is Code.LOCK_UNSUPPORTED
    assert "local disk" in caught.value.finding.advice
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("error", "code"),
    [(errno.EROFS, Code.READ_ONLY), (errno.EACCES, Code.ACCESS_DENIED), (errno.ENOENT, Code.STORE_MISSING)],
)
def test_log_that_cannot_be_opened_says_why(path, error, code):
    disk = FailingDisk()
    disk.fail("open", error)
    with pytest.raises(StoreError) as caught:
        LogFile(disk, path)
    assert caught.value.code is code
    assert (caught.value.finding.found, caught.value.finding.position.source) == (os.strerror(error), str(path))


def test_error_without_a_number_is_still_a_store_error(path):
    class Odd(Disk):
        def open(self, path, flags, mode=0o644):
            raise OSError("odd")

    with pytest.raises(StoreError) as caught:
        LogFile(Odd(), path)
    assert (caught.value.code, caught.value.finding.found) == (Code.DISK_ERROR, "odd")


def test_something_else_in_place_of_the_log_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError):
        LogFile(Disk(), tmp_path / "pipe")
    with pytest.raises(StoreError):
        LogFile(Disk(), tmp_path)


def test_log_that_vanished_is_an_error_and_the_file_stays_usable(path, opened):
    log = opened()
    aside = path.rename(path.with_suffix(".aside"))
    with pytest.raises(StoreError) as caught, log.locked():
        pass
    assert caught.value.code is Code.STORE_MISSING
    aside.rename(path)
    with log.locked():
        pass


@pytest.mark.parametrize("ask", [lambda log: log.settle(1), lambda log: log.settle_name()], ids=["bytes", "name"])
def test_a_file_that_was_put_in_place_of_the_log_is_settled_anew(path, opened, ask):
    path.write_bytes(b"a")
    disk = RecordingDisk()
    log = opened(disk)
    with log.locked():
        ask(log)
        done = list(disk.calls)
        ask(log)
        assert disk.calls == done
    other = path.with_suffix(".other")
    other.write_bytes(b"b")
    other.replace(path)
    with log.locked():
        seen = len(disk.calls)
        ask(log)
        syncs = [call for call in done if "sync" in call]
        assert [call for call in disk.calls[seen:] if "sync" in call] == syncs != []


def test_a_writer_who_may_not_open_the_directory_of_the_log_settles_what_he_can(path, opened):
    path.write_bytes(b"a")
    disk = FailingDisk()
    log = opened(disk)
    disk.fail("open", errno.EACCES)
    with log.locked():
        log.settle(1)
    assert "fdatasync" in disk.calls
    broken = FailingDisk()
    log = opened(broken)
    broken.fail("fsync", errno.EIO)
    with log.locked(), pytest.raises(StoreError, match="make the name of the ledger durable"):
        log.settle(1)


def test_waiting_for_ever_is_allowed(path, opened):
    with opened(wait=float("inf")).locked():
        pass


def test_closed_log_is_misuse_and_closing_twice_is_not(path, opened):
    log = opened()
    log.close()
    log.close()
    with pytest.raises(ValueError, match="closed"), log.locked():
        pass


def test_writer_does_not_follow_a_fork(tmp_path, monkeypatch):
    ledger = new_ledger(tmp_path / "ledger")
    with ledger.writer(SIGNERS["judge"]) as writer:
        real = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: real + 1)
        with pytest.raises(ValueError, match="fork"):
            writer.append("note", note("x"))
        monkeypatch.undo()
        writer.append("note", note("parent"))
    assert notes(ledger.log_path) == ["parent"]


class StickyDisk(Disk):
    """Locks and does not unlock."""

    def flock(self, fd: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().flock(fd, operation)


def test_a_system_that_does_not_unlock_is_said_and_closing_unlocks(opened):
    sticky, other = opened(StickyDisk()), opened()
    with pytest.raises(StoreError, match="cannot unlock the ledger"), sticky.locked():
        pass
    sticky.close()
    with other.locked():
        pass
