"""``append --help`` names every kind of entry that it takes, and no other."""

from __future__ import annotations

import re

from k3_ledger.cli.store import APPEND_KINDS
from k3_ledger.schemas.envelope import SIGNING_ROLES


def test_the_help_of_append_names_the_kinds_that_it_takes() -> None:
    listed = re.sub(r"\(.*?\)", "", APPEND_KINDS.removeprefix("Kind of entry: ").removesuffix("."))
    assert re.split(r",? or |, | ", re.sub(r" (?=,)", "", listed)) == sorted(SIGNING_ROLES.keys() - {"genesis"})
