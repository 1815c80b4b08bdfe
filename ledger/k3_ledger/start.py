"""Where ``k3-ledger`` begins: whoever interrupts it is told so, also while its first modules are imported.

Nothing is imported here that takes time. What comes before, the interpreter itself, ends as it does.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; an interrupt is one line and exit code 130, as a shell has it."""
    try:
        from k3_ledger.cli import main as run  # noqa: PLC0415 - what takes time

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever presses it twice means the same
        if sys.stderr is not None:
            sys.stderr.write("interrupted\n")
        sys.exit(128 + signal.SIGINT)
