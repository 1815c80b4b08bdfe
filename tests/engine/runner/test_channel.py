"""What a process is given, and what is left of it."""

from __future__ import annotations

import os
import resource
import select
import sys
from typing import TYPE_CHECKING

import pytest

from k3_ledger.engine.runner import channel as channel_module
from k3_ledger.engine.runner.channel import KEPT_ENVIRONMENT, Channel
from k3_ledger.engine.runner.session import Session, Task
from k3_ledger.schemas.errors import RunError
from k3_ledger.schemas.findings import Code

if TYPE_CHECKING:
    from pathlib import Path

SPEAKS = """
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], "child": child.pid, "environment": dict(os.environ)}), flush=True)
"""


def test_what_an_engine_started_ends_with_it(tmp_path: Path) -> None:
    """A process that stays would hold the accelerator's memory, and the next run would be blamed."""
    with Channel([sys.executable, "-c", SPEAKS], tmp_path, timeout_s=60) as channel:
        child = os.pidfd_open(channel.ask("hello").data["child"])
        assert not ended(child, 0)
    assert ended(child, 60), "the child is alive"
    os.close(child)


def ended(process: int, seconds: float) -> bool:
    """Whether a process has ended, or does so while this waits; the file descriptor can be read once it has."""
    return bool(select.select([process], [], [], seconds)[0])


@pytest.mark.parametrize("error", [PermissionError(1, "Operation not permitted"), OSError(22, "Invalid argument")])
def test_an_engine_whose_files_cannot_be_limited_is_ended(
    error: OSError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go on beside whatever is measured next, and nobody would know of it."""
    started: list[int] = []

    def refuse(process: int, *_: object) -> None:
        started.append(os.pidfd_open(process))
        raise error

    monkeypatch.setattr(channel_module.resource, "prlimit", refuse)
    with pytest.raises(RunError, match=f"cannot be limited: {error.strerror}") as caught:
        Channel(["sleep", "600"], tmp_path)
    assert caught.value.code is Code.RUN_ENGINE_FAILED
    assert ended(started[0], 60)
    os.close(started[0])


def test_no_file_of_an_engine_can_be_longer_than_an_answer_may_be(tmp_path: Path) -> None:
    """And it cannot lift that; what it starts later is limited too."""
    with Channel([sys.executable, "-c", SPEAKS], tmp_path, timeout_s=60) as channel:
        assert resource.prlimit(channel.pid, resource.RLIMIT_FSIZE) == (1 << 30, 1 << 30)
    ours = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert ours != (1 << 30, 1 << 30), "the controller's own files are not limited by it"


def test_an_engine_gets_nothing_of_the_environment_that_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("K3_CHUNK", "OMP_NUM_THREADS", "SECRET_KEY", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "kernels"))
    with Channel([sys.executable, "-c", SPEAKS], tmp_path, timeout_s=60) as channel:
        given = channel.ask("hello").data["environment"]
        given.pop("LC_CTYPE", None)  # set by Python for itself
        assert given == dict(channel.environment)
        assert set(channel.environment) <= {*KEPT_ENVIRONMENT, "HOME", "TMPDIR", "LC_ALL"}
        assert channel.environment["TRITON_CACHE_DIR"] == str(tmp_path / "kernels"), "what was compiled once is kept"


CHATTERS = """
import json, sys
for line in sys.stdin:
    sys.stdout.write(json.dumps({"id": json.loads(line)["id"]}) + "\\nand another thing\\n")
    sys.stdout.flush()
"""


def test_an_engine_that_speaks_unasked_is_told_so(tmp_path: Path) -> None:
    with Channel([sys.executable, "-c", CHATTERS], tmp_path, timeout_s=60) as channel:
        channel.ask("hello")
        with pytest.raises(RunError, match="before it was asked") as caught:
            channel.ask("ping")
    assert caught.value.code is Code.RUN_PROTOCOL


ANSWERS = {
    "twice the same name": 'json.dumps({"id": number})[:-1] + f\', "id": {number}}}\'',
    "twice the same name further in": 'json.dumps({"id": number})[:-1] + \', "a": [{"b": 1, "b": 1}]}\'',
    "UTF-16": 'json.dumps({"id": number}).encode("utf-16")',
    "UTF-16 without a mark": 'json.dumps({"id": number}).encode("utf-16-le")',
    "UTF-32": 'json.dumps({"id": number}).encode("utf-32")',
    "a byte order mark": 'b"\\xef\\xbb\\xbf" + json.dumps({"id": number}).encode()',
    "half a character": 'json.dumps({"id": number, "a": "x"}).encode().replace(b"x", b"\\xc3")',
    "an integer without end": 'json.dumps({"id": number})[:-1] + ", \\"a\\": " + "9" * 5000 + "}"',
}


CONTROL = 'json.dumps({"id": number, "a": {"a": 1}})'


@pytest.mark.parametrize("answer", [*ANSWERS.values(), CONTROL], ids=[*ANSWERS, "control"])
def test_an_answer_is_one_reading_of_one_encoding(answer: str, tmp_path: Path) -> None:
    engine = f"""
import json, sys
for line in sys.stdin:
    number = json.loads(line)["id"]
    answer = {answer}
    sys.stdout.buffer.write((answer if isinstance(answer, bytes) else answer.encode()) + b"\\n")
    sys.stdout.flush()
"""
    with Channel([sys.executable, "-c", engine], tmp_path, timeout_s=60) as channel:
        if answer == CONTROL:
            assert channel.ask("hello").data["a"] == {"a": 1}
            return
        with pytest.raises(RunError) as caught:
            channel.ask("hello")
        assert caught.value.code is Code.RUN_PROTOCOL


@pytest.mark.parametrize("field", ["protocol", "vocabulary"])
@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_hello_names_integers(field: str, value: object) -> None:
    hello = {"protocol": 1, "vocabulary": 1, "name": "engine", "version": "1"}
    session = Session(Task(vocabulary=1, usable=[0], reference=lambda _: None))  # type: ignore[arg-type,return-value]
    session._introduce(hello)
    with pytest.raises(RunError):
        session._introduce({**hello, field: value})
