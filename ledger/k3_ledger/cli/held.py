"""What stays open until the command that is running ends: a log that is read more than once, wherever it came from."""

from __future__ import annotations

import contextlib

HELD = contextlib.ExitStack()
"""Entered around each command, and empty in between."""
