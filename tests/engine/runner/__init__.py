"""The runner: what it measures, how it is resolved and recorded, and what it refuses."""

from __future__ import annotations
