"""Made-up result files of the shapes that other tools write."""

from __future__ import annotations
