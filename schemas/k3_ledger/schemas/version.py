"""The version of this package; the build reads it from here, and so does the program: no metadata look-up at start."""

from __future__ import annotations

__version__ = "0.1.0"
