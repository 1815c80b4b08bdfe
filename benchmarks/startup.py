"""Start-up of the command line against its floor: an interpreter that does nothing.

    python benchmarks/startup.py [--rounds 15] [--bundle FOLDER]

Alternates ``python -c pass`` with ``k3-ledger --version``, ``k3-ledger verify`` of a ledger of ten receipts, and the
same through ``python -m``; each is a whole process timed from outside.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from common import Recorder, finish, parser
from verify import build


def main() -> None:
    """Measure, print, and leave a bundle when asked to."""
    arguments = parser(__doc__)
    arguments.set_defaults(rounds=15)
    options = arguments.parse_args()
    script = shutil.which("k3-ledger")
    program = [script] if script else [sys.executable, "-m", "k3_ledger.cli"]
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), 10, 1500)
        commands = {
            "floor": [sys.executable, "-c", "pass"],
            "subject": [*program, "--version"],
            "verify-10": [*program, "verify", folder],
        }
        recorder = Recorder("start-up", "start")
        for _ in range(options.rounds + recorder.warmup):
            for actor, command in commands.items():
                recorder.record(
                    actor,
                    1,
                    lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL),
                    observer="controller",
                )
    finish([recorder], "k3-ledger-start-up", options)


if __name__ == "__main__":
    main()
