"""Memory of an engine is that of all its processes, wherever they went; what it started ends with it."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from k3_ledger.engine.runner import channel as channels
from k3_ledger.engine.runner.channel import Channel
from k3_ledger.engine.runner.kin import Kin, _takes_orphans

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
HELD = 96 * MIB
ENGINE = """
import json, os, sys
def serve(size):
    held = bytearray(b"x") * size
    for line in sys.stdin:
        print(json.dumps({"id": json.loads(line)["id"], "pid": os.getpid()}), flush=True)
def end():
    os._exit(0)
def rest():
    os.wait()
    os._exit(0)
"""
WAYS = {
    "itself": "serve(SIZE)",
    "its second thread, the first having ended": """
import ctypes, platform, threading
threading.Thread(target=serve, args=(SIZE,)).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)
""",
    "a child": "os.fork() and rest(); serve(SIZE)",
    "a child in a session of its own": "os.fork() and rest(); os.setsid(); serve(SIZE)",
    "an orphan": "os.fork() and end(); serve(SIZE)",
    "a daemon": "os.fork() and end(); os.setsid(); os.fork() and end(); serve(SIZE)",
    "a daemon below one that stays": "os.fork() and rest(); os.setsid(); os.fork() and end(); serve(SIZE)",
}
COMMANDS = {
    "a shell": ["sh", "-c", '"$@"; exit', "sh"],
    "a session of its own": ["setsid", "-w"],
    "a shell in a session of its own": ["setsid", "-w", "sh", "-c", '"$@"; exit', "sh"],
    "a shell in the background": ["sh", "-c", 'exec 3<&0; "$@" <&3 & wait', "sh"],
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "_QUIT_SECONDS", 5.0)


def engine(way: str, size: int) -> list[str]:
    return [sys.executable, "-S", "-c", ENGINE + way.replace("SIZE", str(size))]


def peak(command: list[str], folder: Path) -> int:
    with Channel(command, folder, timeout_s=60) as channel:
        channel.ask("hello")
        channel.peak_host_bytes()
        channel.ask("work")
        return channel.peak_host_bytes()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_memory_is_counted_wherever_the_process_went(way: str, tmp_path: Path) -> None:
    assert HELD <= peak(engine(way, HELD), tmp_path) < HELD + 80 * MIB
    assert peak(engine(way, 0), tmp_path) < HELD, "the control holds nothing"


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_memory_is_counted_behind_any_command(command: list[str], tmp_path: Path) -> None:
    assert HELD <= peak([*command, *engine("serve(SIZE)", HELD)], tmp_path) < HELD + 80 * MIB
    assert peak([*command, *engine("serve(SIZE)", 0)], tmp_path) < HELD


def test_the_memory_of_one_that_has_ended_since_it_was_seen_still_counts(tmp_path: Path) -> None:
    """An engine that loads in one process and serves in another: each look adds to what was seen before."""
    body = f"""
import json, os, sys
def answer():
    line = sys.stdin.readline()
    print(json.dumps({{"id": json.loads(line)["id"]}}), flush=True)
child = os.fork()
if not child:
    held = bytearray(b"x") * {HELD}
    answer()
    os.kill(os.getpid(), 19)
    os._exit(0)
os.waitpid(child, os.WUNTRACED)
answer()
os.kill(child, 9)
os.waitpid(child, 0)
answer()
sys.stdin.read()
"""
    with Channel([sys.executable, "-S", "-c", body], tmp_path, timeout_s=60) as channel:
        channel.ask("hello")
        first = channel.peak_host_bytes()
        channel.ask("work")
        channel.ask("work")
        assert channel.peak_host_bytes() >= first >= HELD


@pytest.mark.parametrize(
    "way", [WAYS["itself"], WAYS["a child in a session of its own"], WAYS["a daemon below one that stays"]]
)
def test_what_left_its_session_ends_with_the_engine(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was seen below the engine once: an orphan that never was may be somebody else's."""
    monkeypatch.setattr(channels, "_QUIT_SECONDS", 0.1)
    stays = way.replace("serve(SIZE)", "import signal; serve(0); signal.pause()")
    if way == WAYS["a daemon below one that stays"]:
        stays = (
            "os.fork() and rest(); os.setsid(); import signal; os.fork() and signal.pause(); serve(0); signal.pause()"
        )
    with Channel(engine(stays, 0), tmp_path, timeout_s=60) as channel:
        handle = os.pidfd_open(channel.ask("hello").data["pid"])
        channel.peak_host_bytes()
        assert not select.select([handle], [], [], 0)[0]
    assert select.select([handle], [], [], 60)[0], "it is alive"
    os.close(handle)


def test_children_that_the_controller_had_before_are_neither_counted_nor_ended(tmp_path: Path) -> None:
    with subprocess.Popen(engine("serve(SIZE)", HELD), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(b'{"id": 1}\n')
        other.stdin.flush()
        other.stdout.readline()
        assert peak(engine("serve(SIZE)", 0), tmp_path) < HELD
        assert other.poll() is None
        other.stdin.close()
    assert other.returncode == 0


def test_orphans_are_taken_in_only_while_an_engine_runs(tmp_path: Path) -> None:
    assert not _takes_orphans()
    with Channel(engine("serve(SIZE)", 0), tmp_path, timeout_s=60) as channel:
        channel.ask("hello")
        assert _takes_orphans()
    assert not _takes_orphans()


def test_a_process_whose_name_is_hostile_is_read_right() -> None:
    """The name stands in brackets in front of what is read, and may hold brackets, blanks and any byte."""
    body = "import ctypes; ctypes.CDLL(None).prctl(15, b') R 1 2 \\xff(\\n', 0, 0, 0); print(flush=True); input()"
    kin = Kin()
    with subprocess.Popen([sys.executable, "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        kin.started(process.pid)
        process.stdout.readline()
        assert kin.look() > 0
        process.stdin.write(b"\n")
        process.stdin.close()
        process.wait()
    kin.end()
