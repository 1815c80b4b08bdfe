"""Bodies of ``pin`` and ``rule`` entries out of what ``k3-ledger`` prints: python bodies.py pin [ROLE]|rule.

JSON in, JSON out. ``pin`` takes ``k3-ledger frontier LEDGER --metric M --json`` and a role, ``frontier`` or ``guard``:
what a run has to beat, and what it may not lose while it gains in the other metric. ``rule`` takes
``k3-ledger rules show RULE --json``.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def pin(climbs: list[dict[str, Any]], role: str = "frontier") -> dict[str, Any]:
    """The newest step of the one track that there is."""
    (climb,) = climbs
    newest = climb["steps"][-1]
    return {
        "slot": f"{role}:{climb['track']}",
        "value": newest["value"],
        "unit": "tok/s",
        "source": newest["receipt"],
    }


def rule(shown: dict[str, Any]) -> dict[str, Any]:
    """A rule with all of its parameters."""
    parameters: dict[str, str] = shown["parameters"]
    return {
        "rule": shown["rule"],
        "rule_sha256": shown["sha256"],
        "arithmetic": parameters["arithmetic"],
        "parameters": [{"name": name, "value": value} for name, value in parameters.items()],
    }


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(pin(given, *sys.argv[2:]) if sys.argv[1] == "pin" else rule(given)))
