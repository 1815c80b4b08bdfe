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
        _say("interrupted\n")
        sys.exit(128 + signal.SIGINT)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - nor is a panic of a library in Rust an Exception
        _say(_FAILED, error)
        sys.exit(3)


_FAILED = """error: the program could not run, and this is no verdict: {}
hint: give it more memory, or look after the disk it is installed on, and run it again
"""


def _say(text: str, *errors: BaseException) -> None:
    """Write words to stderr, errors in their places. Where that cannot be done the exit code says it all."""
    try:  # nothing more is imported: there may be no room for it, or no disk
        shown = [ascii(f"{type(error).__name__}: {error}")[1:-1] for error in errors]
        if sys.stderr is not None:
            sys.stderr.write(text.format(*shown))
    except Exception:  # noqa: BLE001, S110 - the disk is full, the pipe or the stream closed, there is no memory
        pass


if __name__ == "__main__":
    main()
