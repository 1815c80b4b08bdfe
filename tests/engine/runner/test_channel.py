"""What a process is given, and what is left of it."""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

import pytest

from k3_ledger.engine.runner.channel import KEPT_ENVIRONMENT, Channel
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
