"""``python -m tests.fuzz.seeds``: add to each corpus what the seeds of its target make today."""

from __future__ import annotations

from tests.fuzz.target import store, stored
from tests.fuzz.targets import TARGETS


def main() -> None:
    """Write them."""
    for target in TARGETS.values():
        store(
            "corpus",
            target.name,
            [*stored("corpus", target.name), *(data[: target.longest] for data in target.seeds())],
        )


if __name__ == "__main__":
    main()
