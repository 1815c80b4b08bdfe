"""What docs/exit-codes.md says one changed byte does, by the file it stands in: every byte of a small ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from k3_ledger.verify.log import check_log
from k3_ledger.verify.source import MemorySource
from tests.ledgers import Key, sign_head, small_ledger

if TYPE_CHECKING:
    from k3_ledger.schemas.outcomes import ExitCode

LEDGER = small_ledger(1)
HEAD = LEDGER.head()
STRANGER = sign_head(LEDGER.lines, Key("stranger")).rpartition(b"\n\xe2\x80\x94 ")
COSIGNED = HEAD + (STRANGER[1] + STRANGER[2])[1:]


def changed(data: bytes, at: int, mask: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def code(log: bytes, head: bytes, kept: bytes = HEAD) -> ExitCode:
    name = f"checkpoints/{len(LEDGER.lines):012}.note"
    return check_log(MemorySource(log, checkpoint=head, kept=[(name, kept)])).exit_code


def test_the_ledger_is_good() -> None:
    assert code(LEDGER.data, HEAD) == code(LEDGER.data, COSIGNED, COSIGNED) == 0


@pytest.mark.parametrize("start", range(0, len(LEDGER.data), 400))
def test_a_byte_of_an_entry_is_exit_1(start: int) -> None:
    for at in range(start, min(start + 400, len(LEDGER.data)), 3):
        assert code(changed(LEDGER.data, at), HEAD) == 1, at


@pytest.mark.parametrize("where", ["newest", "kept"])
def test_a_byte_of_a_head_and_its_signature_by_the_log_is_exit_1(where: str) -> None:
    for at in range(len(HEAD)):
        other = changed(HEAD, at)
        assert (code(LEDGER.data, other) if where == "newest" else code(LEDGER.data, HEAD, other)) == 1, at


def test_a_byte_of_a_signature_that_counts_for_nobody_is_nothing_while_the_note_can_be_read() -> None:
    seen = {code(LEDGER.data, changed(COSIGNED, at)) for at in range(len(HEAD), len(COSIGNED))}
    assert seen == {0, 1}
    digit = COSIGNED.rindex(b"\n") - 30
    other = COSIGNED[:digit] + (b"B" if COSIGNED[digit : digit + 1] != b"B" else b"C") + COSIGNED[digit + 1 :]
    assert code(LEDGER.data, other) == 0
