"""``python -m k3_ledger.cli``."""

from __future__ import annotations

from k3_ledger.start import main

main()
