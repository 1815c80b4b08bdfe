"""A host or a pipe that never ends is left, soon, with an error and no verdict; a signal ends a command in order."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from k3_ledger.ledger.core.lines import EntryWatch
from k3_ledger.schemas.errors import MalformedError
from k3_ledger.schemas.findings import Code
from tests.ledgers import small_ledger
from tests.static_host import ledger_files, serve
from tests.support import plain_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.static_host import Handler

pytest.importorskip("fsspec", reason="the extra k3-ledger[remote] is not installed")
pytest.importorskip("aiohttp", reason="the extra k3-ledger[remote] is not installed")

LEDGER = small_ledger()
COMMAND = (sys.executable, "-m", "k3_ledger.cli")


def for_ever(start: bytes, again: bytes) -> Callable[[Handler, bytes | None], None]:
    def send(handler: Handler, _: bytes | None) -> None:
        handler.start(200, Transfer_Encoding="chunked")
        with contextlib.suppress(OSError):
            for part in iter(lambda parts=[start]: parts.pop() if parts else again, None):
                handler.wfile.write(b"%x\r\n" % len(part) + part + b"\r\n")

    return send


ENDLESS = {
    "junk without a line feed": (b"x", b"x" * 65536, "K3L-NOT-A-LEDGER"),
    "zeros": (b"\0", bytes(65536), "K3L-NOT-A-LEDGER"),
    "junk lines": (b"j", b"junk\n" * 10000, "K3L-NOT-A-LEDGER"),
    "long junk lines": (b"j", (b"j" * 60000 + b"\n") * 3, "K3L-NOT-A-LEDGER"),
    "an entry that never ends": (b'{"entry":{', b"x" * 65536, "K3L-REMOTE-UNREADABLE"),
    "a good log, then a line that never ends": (LEDGER.data, b"x" * 65536, "K3L-REMOTE-UNREADABLE"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_host_that_sends_for_ever_is_left_with_no_verdict(run, name):
    start, again, code = ENDLESS[name]
    with serve(ledger_files(LEDGER)) as host:
        host.faults["ledger.jsonl"] = for_ever(start, again)
        done = run("verify", host.address, "--processes", "1")
    assert done.code == 3
    assert f"[{code}]" in done.out + done.err
    assert (done.out + done.err).count("error: ") == 1


def test_good_looking_lines_for_ever_are_left_at_the_limit(run, monkeypatch):
    monkeypatch.setattr("k3_ledger.cli.sources.MAX_STREAM", 4 << 20)
    with serve(ledger_files(LEDGER)) as host:
        host.faults["ledger.jsonl"] = for_ever(LEDGER.data, LEDGER.lines[-1] * 50)
        done = run("verify", host.address, "--processes", "1")
    assert "goes on for more than 4194304 bytes" in done.out
    assert done.code == 1  # what came before the limit was false


def test_a_log_of_which_line_1_is_damaged_is_still_waited_for(run):
    with serve(ledger_files(LEDGER)) as host:
        host.files["ledger.jsonl"] = b"x" + LEDGER.data
        done = run("verify", host.address)
    assert done.code == 1


def test_a_watch_ends_at_the_first_line_that_looks_like_an_entry():
    watch = EntryWatch(3)
    assert not watch.feed(b"junk\nju")
    assert watch.feed(b"nk\n" + LEDGER.lines[0])
    with pytest.raises(MalformedError) as caught:
        EntryWatch(3).feed(b"junk\n" * 3 + LEDGER.lines[0])
    assert caught.value.code is Code.NOT_A_LEDGER


def test_sigterm_ends_a_verification_without_a_warning():
    begun = threading.Event()

    def stalled(handler: Handler, data: bytes | None) -> None:
        assert data is not None
        handler.start(200, Transfer_Encoding="chunked")
        with contextlib.suppress(OSError):
            for _ in range(120):  # 60 MB: more than sockets and waiting pieces hold, so a worker has answered by then
                handler.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
            begun.set()
            while True:
                handler.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")

    ledger = small_ledger(400)
    with serve(ledger_files(ledger)) as host:
        host.faults["ledger.jsonl"] = stalled
        process = subprocess.Popen(
            [*COMMAND, "verify", host.address, "--processes", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=plain_environment(),
        )
        assert begun.wait(60)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"resource_tracker" not in err
    assert b"Traceback" not in err
