"""Where ``k3-ledger`` begins: from the first import on, an interrupt is told, and no fault accuses anybody.

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
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - nor is a panic of a library in Rust an Exception
        sys.exit(_say(error))


def _say(error: BaseException) -> int:
    """Say in words what kept the program from running at all, or from saying it better, and return its exit code."""
    what = ascii(f"{type(error).__name__}: {error}")[1:-1]
    if sys.stderr is not None:
        try:  # noqa: SIM105 - nothing more is imported: there may be no room for it, or no disk
            sys.stderr.write(
                f"error: the program could not run, and this is no verdict: {what}\n"
                "hint: give it more memory, or look after the disk it is installed on, and run it again\n"
            )
        except OSError:
            pass
    return 3
