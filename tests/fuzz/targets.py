"""Every target, by name."""

from __future__ import annotations

from tests.fuzz import attestations, formats, rooms, states

TARGETS = {target.name: target for target in (*formats.TARGETS, *rooms.TARGETS, *states.TARGETS, *attestations.TARGETS)}
