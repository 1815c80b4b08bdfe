"""Damaged copies of a good ledger: each kind of damage under its own code, with a checkpoint beside it and without.

The table says which codes differ: a checkpoint turns what a chain cannot show (a shorter log) into an error.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.source import MemorySource
from tests.ledgers import ROOT, small_ledger

if TYPE_CHECKING:
    from collections.abc import Callable

LEDGER = small_ledger(6)
LINES = LEDGER.lines
DATA = LEDGER.data
LAST = LINES[-1]
BODY = b"".join(LINES[:-1])
MIDDLE = len(LINES) // 2
POLICY = TrustPolicy(root_public_key=ROOT.public)

C = Code
AHEAD = {C.CHECKPOINT_AHEAD}
BEYOND = {C.UNCHECKPOINTED}
FALSE, TORN, UNREADABLE, GOOD = ExitCode.FALSE, ExitCode.TORN_TAIL, ExitCode.UNREADABLE, ExitCode.VERIFIED
OTHER = {C.CHECKPOINT_ROOT}
SHARED = {C.CHAIN_INDEX, C.CHAIN_PREV}

VARIANTS: dict[str, tuple[bytes, set[Code], ExitCode, set[Code], ExitCode]] = {
    # name: (bytes, codes alone, exit code alone, further codes beside a checkpoint, exit code beside one)
    "01_torn_half": (BODY + LAST[: len(LAST) // 2], {C.TORN_TAIL}, TORN, AHEAD, FALSE),
    "01_torn_then_appended": (BODY + LAST[: len(LAST) // 2] + LAST, {C.GLUED_LINES}, FALSE, {C.CHECKPOINT_ROOT}, FALSE),
    "01_torn_one_byte": (BODY + LAST[:1], {C.TORN_TAIL}, TORN, AHEAD, FALSE),
    "03_last_entry_removed": (BODY, BEYOND, GOOD, AHEAD, FALSE),
    "03_last_two_removed": (b"".join(LINES[:-2]), BEYOND, GOOD, AHEAD, FALSE),
    "03_first_removed": (
        b"".join(LINES[1:]),
        {C.CHAIN_NO_GENESIS, C.ROOT_NOT_CHECKED},
        FALSE,
        AHEAD,
        FALSE,
    ),
    "03_empty": (b"", {C.EMPTY_LEDGER}, UNREADABLE, AHEAD, FALSE),
    "03_middle_removed": (b"".join(LINES[:MIDDLE] + LINES[MIDDLE + 1 :]), SHARED, FALSE, AHEAD, FALSE),
    "03_swapped": (
        b"".join([*LINES[: MIDDLE - 1], LINES[MIDDLE], LINES[MIDDLE - 1], *LINES[MIDDLE + 1 :]]),
        SHARED | {C.CLAIMED_TIME},
        FALSE,
        {C.CHECKPOINT_ROOT},
        FALSE,
    ),
    "05_last_entry_repeated": (DATA + LAST, {C.CHAIN_REPEATED}, FALSE, BEYOND, FALSE),
    "22_bom": (b"\xef\xbb\xbf" + DATA, {C.BOM, C.ROOT_NOT_CHECKED}, FALSE, OTHER, FALSE),
    "22_crlf": (DATA.replace(b"\n", b"\r\n"), {C.CRLF, C.ROOT_NOT_CHECKED}, FALSE, OTHER, FALSE),
    "22_blank_line": (
        b"".join(LINES[:MIDDLE]) + b"\n" + b"".join(LINES[MIDDLE:]),
        {C.BLANK_LINE},
        FALSE,
        {C.CHECKPOINT_ROOT},
        FALSE,
    ),
    "22_nul_tail": (DATA + bytes(4096), {C.NUL_TAIL}, TORN, set(), TORN),
    "22_trailing_spaces": (DATA + b"  ", {C.TAIL_DAMAGED}, FALSE, set(), FALSE),
    "22_second_ledger_joined": (DATA + DATA, {C.CHAIN_SECOND_GENESIS, C.KEY_ENROLLED_TWICE}, FALSE, BEYOND, FALSE),
}  # fmt: skip

WORDS = {
    "01_torn_half": "the last line is cut in its middle",
    "01_torn_then_appended": "another line is appended to that",
    "01_torn_one_byte": "the last line is cut behind its first byte",
    "03_last_entry_removed": "the last entry is gone",
    "03_last_two_removed": "the last two are gone",
    "03_first_removed": "the first entry is gone",
    "03_empty": "the file is empty",
    "03_middle_removed": "an entry in the middle is gone",
    "03_swapped": "two neighbours are swapped",
    "05_last_entry_repeated": "the last entry stands twice",
    "22_bom": "a byte order mark stands in front",
    "22_crlf": "line endings are CRLF",
    "22_blank_line": "a blank line stands in the middle",
    "22_nul_tail": "NUL bytes stand behind the last line",
    "22_trailing_spaces": "spaces stand behind the last line",
    "22_second_ledger_joined": "a second ledger is appended",
}
"""What a page says of each variant."""


def _with_head(alone: set[Code], beside: set[Code]) -> set[Code]:
    """All codes beside a checkpoint: that nothing commits to the log is not said where one does."""
    return alone - BEYOND | beside


def row(name: str) -> str:
    """A variant as a row of the page."""
    _, alone, exit_alone, beside, exit_beside = VARIANTS[name]
    cells = [
        " ".join(f"`{code.id[4:]}`" for code in sorted(codes, key=lambda code: code.id))
        for codes in (alone, _with_head(alone, beside))
    ]
    return f"| {WORDS[name]} | {cells[0]} | {int(exit_alone)} | {cells[1]} | {int(exit_beside)} |"


def test_the_page_says_what_each_kind_of_damage_is_called() -> None:
    page = (Path(__file__).parents[2] / "docs/verify.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in page if line in {row(name) for name in VARIANTS}] == [row(name) for name in VARIANTS]


def outcome(data: bytes, checkpoint: bytes | None) -> tuple[set[Code], ExitCode]:
    report = check_log(MemorySource(data, checkpoint=checkpoint), POLICY)
    return set(report.counts), report.exit_code


@pytest.mark.parametrize("name", VARIANTS)
def test_each_kind_of_damage_has_its_own_code(name: str) -> None:
    data, alone, exit_alone, beside, exit_beside = VARIANTS[name]
    assert outcome(data, None) == (alone, exit_alone)
    assert outcome(data, LEDGER.head()) == (_with_head(alone, beside), exit_beside)
    assert alone, "no damage without a code"


def test_the_undamaged_ledger_has_no_finding_beside_a_head_and_looks_like_a_shorter_one_without() -> None:
    assert outcome(DATA, None) == (BEYOND, GOOD)
    assert outcome(DATA, LEDGER.head()) == (set(), GOOD)


def test_the_handed_generator_damages_a_ledger_in_these_ways_and_no_other(
    tmp_path: Path, test_data: Callable[..., Path]
) -> None:
    script = test_data("bug-cases", "mutate_ledger.py")
    (tmp_path / "ledger.jsonl").write_bytes(DATA)
    arguments = [sys.executable, str(script), str(tmp_path / "ledger.jsonl"), str(tmp_path / "out")]
    subprocess.run(arguments, check=True, capture_output=True)
    made = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert made == {name: variant[0] for name, variant in VARIANTS.items()}


@pytest.mark.parametrize("kind", ["middle", "first", "last"])
def test_crlf_in_one_line_only_is_found_at_its_byte(kind: str) -> None:
    at = {"first": 0, "middle": MIDDLE, "last": len(LINES) - 1}[kind]
    lines = [line[:-1] + b"\r\n" if n == at else line for n, line in enumerate(LINES)]
    report = check_log(MemorySource(b"".join(lines)), POLICY)
    (finding,) = [f for f in report.findings if f.code is Code.CRLF]
    assert finding.position.line == at + 1
    assert finding.position.byte_offset == len(b"".join(lines[: at + 1])) - 2
    assert "autocrlf" in finding.message


def test_line_separators_inside_strings_do_not_end_a_line() -> None:
    ledger = small_ledger(1)
    from tests.ledgers import JUDGE

    ledger.add("note", {"text": "one\u2028two\u2029three\u0085four", "artifacts": []}, JUDGE)
    assert outcome(ledger.data, ledger.head()) == (set(), GOOD)
