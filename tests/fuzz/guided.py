"""``python -m tests.fuzz.guided TARGET WORD...``: the process that atheris takes over; words are libFuzzer's.

The product is imported under instrumentation, so nothing here imports it first.
"""

from __future__ import annotations

import sys

import atheris


def main() -> None:
    """Instrument the product, then fuzz one target. Never returns."""
    name, *words = sys.argv[1:]
    with atheris.instrument_imports(include=["k3_ledger"]):
        from tests.fuzz.target import stored
        from tests.fuzz.targets import TARGETS

        target = TARGETS[name]
        for data in stored("corpus", name):
            target.run(data)  # imports what the target imports late
    atheris.Setup([sys.argv[0], *words], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
