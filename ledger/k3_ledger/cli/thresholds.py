"""``k3-ledger key threshold``, ``endorse`` and ``append``: root actions that several root keys stand behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3_ledger.cli.actions import act, append_action, describe, print_proposal, print_receipt
from k3_ledger.cli.files import check_free, new_file, replace_file
from k3_ledger.cli.options import (  # noqa: TC001 - read when the command is built
    JsonOption,
    KeyOption,
    LastRootOption,
    LedgerOption,
    NewKeyOption,
    PassphraseOption,
    ProposeOption,
    ReasonOption,
    ReplaceOption,
    SignOption,
    TimeOption,
    UnprovenOption,
    WaitOption,
)
from k3_ledger.cli.signing import load_key, shown_by
from k3_ledger.ledger.regular import read_small

if TYPE_CHECKING:
    from k3_ledger.ledger.writer.proposal import Proposal

THRESHOLD_HELP = """Set how many root keys have to stand behind each later key and threshold entry.

Enrol the further root keys first (key enrol root …). Changing a threshold takes as many root keys as the old one says.
"""
ENDORSE_HELP = """Endorse a proposal with a root key, offline: adds a signature to the file.

What is endorsed is printed. With --ledger the proposal is held against that copy of the ledger first: that it is for
this log and for the present state of its keys, could count, and that every endorsement in it is one of this action by
a root key. Without it, look at what is printed, and take nobody's endorsement from it. An endorsement counts for this
one action, once: when another key entry is appended first, it is void.
"""
APPEND_HELP = """Append a proposed action with the endorsements collected so far.

The root key that signs it counts as well, so it need not endorse. Several files are copies of one proposal that
different holders endorsed.
"""


def register(group: typer.Typer) -> None:
    """Add the commands to the group ``key``."""
    group.command("threshold", help=THRESHOLD_HELP)(threshold)
    group.command("endorse", help=ENDORSE_HELP)(endorse)
    group.command("append", help=APPEND_HELP)(append)


def threshold(
    count: Annotated[int, typer.Argument(min=1, max=17, help="How many root keys.", show_default=False)],
    key: SignOption = None,
    ledger: LedgerOption = Path(),
    propose: ProposeOption = None,
    reason: ReasonOption = None,
    passphrase_file: PassphraseOption = None,
    time: TimeOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Append the entry that sets a threshold."""
    from k3_ledger.ledger.writer.store import Ledger

    body: dict[str, object] = {"threshold": count, "reason": reason, "endorsements": []}
    opened = Ledger.open(ledger)
    act(opened, "threshold", body, key, propose, passphrase_file, time=time, wait=wait, as_json=as_json)


def endorse(
    proposal: Annotated[Path, typer.Argument(help="File that --propose wrote.", show_default=False)],
    key: KeyOption,
    ledger: Annotated[
        Path | None, typer.Option("--ledger", "-l", help="Your copy of the ledger, to hold the proposal against.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the endorsed copy here; in place when omitted.")
    ] = None,
    replace: ReplaceOption = False,
    last_root: LastRootOption = False,
    passphrase_file: PassphraseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add one endorsement to a proposal."""
    from k3_ledger.ledger.writer import proposal as proposals
    from k3_ledger.ledger.writer.store import Ledger

    if out is not None:
        check_free(out, replace=replace, reads=(proposal, key, passphrase_file))
    proposed, signer = read_proposal(proposal), load_key(key, passphrase_file)
    if ledger is not None:
        proposals.check_proposal(Ledger.open(ledger), proposed, endorser=signer.key_id, last_root=last_root)
    endorsed = proposals.endorse(proposed, signer)
    data = proposals.format_proposal(endorsed)
    if out is None:
        replace_file(proposal, data)
    else:
        with new_file(out, replace=replace) as file:
            file.write(data)
    others = len(endorsed.endorsers) - 1  # one's own stands behind them
    print_proposal(endorsed, out or proposal, as_json=as_json, unchecked=others if ledger is None else 0)
    if ledger is None and not as_json:
        typer.echo("note: not held against a ledger (--ledger); compare the identity with your own copy", err=True)


def append(
    proposal: Annotated[list[Path], typer.Argument(help="The proposal, or endorsed copies of it.", show_default=False)],
    key: KeyOption,
    ledger: LedgerOption = Path(),
    last_root: LastRootOption = False,
    new_key_file: NewKeyOption = None,
    unproven: UnprovenOption = False,
    passphrase_file: PassphraseOption = None,
    time: TimeOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Append a proposed action."""
    from k3_ledger.ledger.writer.proposal import check_proposal, merge
    from k3_ledger.ledger.writer.store import Ledger

    opened, signer = Ledger.open(ledger), load_key(key, passphrase_file)
    merged = merge([read_proposal(path) for path in proposal], signer=signer.key_id)
    check_proposal(opened, merged, last_root=last_root)
    shown = None if unproven else shown_by(new_key_file)
    receipt = append_action(
        opened, signer, merged.kind, merged.body, time=time, wait=wait, last_root=last_root, shown=shown
    )
    print_receipt(receipt, describe(merged.kind, merged.body), as_json=as_json)


def read_proposal(path: Path) -> Proposal:
    """A proposal from its file.

    Raises:
        LedgerError: it cannot be read, or is none.
    """
    from k3_ledger.cli.given import PROPOSAL, given
    from k3_ledger.ledger.writer.proposal import parse_proposal
    from k3_ledger.schemas.errors import handed_in
    from k3_ledger.schemas.outcomes import Position

    with given(path, PROPOSAL), handed_in(path.name):
        return parse_proposal(read_small(path), position=Position(source=path.name))
