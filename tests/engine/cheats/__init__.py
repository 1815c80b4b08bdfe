"""Engines that lie, each in one way, and the finding that refuses each."""

from __future__ import annotations
