"""Root actions: appended by one root key, or written down for several to endorse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from k3_ledger.cli.files import check_free, new_file
from k3_ledger.cli.options import print_json
from k3_ledger.cli.signing import load_key
from k3_ledger.cli.told import done
from k3_ledger.schemas.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.ledger.writer.append import Receipt
    from k3_ledger.ledger.writer.keys import Signer
    from k3_ledger.ledger.writer.proposal import Proposal
    from k3_ledger.ledger.writer.store import Ledger


def act(
    ledger: Ledger,
    kind: str,
    body: dict[str, object],
    key: Path | None,
    propose: Path | None,
    passphrase_file: Path | None,
    *,
    time: str | None,
    wait: float,
    as_json: bool,
    last_root: bool = False,
    shown: tuple[str, ...] | None = (),
) -> None:
    """Append a root action, or write a proposal of it.

    ``shown`` names new keys whose private half was at hand; None asks nobody for it.
    """
    if (key is None) == (propose is None):
        raise typer.BadParameter("give either the root key that signs, or --propose FILE", param_hint="--key")
    if key is not None:
        receipt = append_action(
            ledger, load_key(key, passphrase_file), kind, body, time=time, wait=wait, last_root=last_root, shown=shown
        )
        print_receipt(receipt, describe(kind, body), as_json=as_json)
    elif propose is not None:
        write_proposal(ledger, kind, body, propose, as_json=as_json, last_root=last_root)


def append_action(
    ledger: Ledger,
    signer: Signer,
    kind: str,
    body: dict[str, Any],
    *,
    time: str | None,
    wait: float,
    last_root: bool,
    shown: tuple[str, ...] | None,
) -> Receipt:
    """Append a root action that leaves the log to root keys that somebody holds, unless that is not asked for.

    Raises:
        LedgerError: ``KEY_NOT_SHOWN``, or what the writer refuses.
    """
    from k3_ledger.ledger.writer.append import Draft
    from k3_ledger.ledger.writer.possession import check_shown

    with ledger.writer(signer, lock_timeout_s=wait) as writer, writer.exclusive() as state:
        if shown is not None and not last_root:
            writer.rehearse([Draft(kind, body, time, last_root)])
            check_shown(state, kind, body, (signer.key_id, *shown))
        return writer.append(kind, body, time=time, last_root=last_root)


def print_receipt(receipt: Receipt, what: str, *, as_json: bool, more: dict[str, Any] | None = None) -> None:
    """Say which entry was appended; ``more`` is added to the JSON."""
    with done(f"entry {receipt.index} {receipt.identity} stands: do not append it again"):
        if as_json:
            said = {"index": receipt.index, "identity": receipt.identity, "byte_offset": receipt.byte_offset}
            print_json({**said, **(more or {})})
        else:
            typer.echo(printable(f"entry {receipt.index} {receipt.identity}: {what}"))


def write_proposal(
    ledger: Ledger, kind: str, body: dict[str, Any], path: Path, *, as_json: bool, last_root: bool = False
) -> None:
    """Write a proposal file and say what is in it. A file that stands there is left as it is.

    Raises:
        BadParameter: the file exists.
        StoreError: it cannot be written.
    """
    check_free(path, replace=False, option="--propose")
    from k3_ledger.ledger.writer.proposal import format_proposal, propose

    proposal = propose(ledger, kind, body, last_root=last_root)
    with new_file(path, replace=False, option="--propose") as file:
        file.write(format_proposal(proposal))
    print_proposal(proposal, path, as_json=as_json)


def describe(kind: str, body: dict[str, Any]) -> str:
    """A root action in a few words."""
    if kind == "threshold":
        return f"threshold {body['threshold']}"
    return f"{body['action']} {body['role']} key {body['name']}"


def print_proposal(proposal: Proposal, path: Path, *, as_json: bool, unchecked: int = 0) -> None:
    """Say what a proposal file holds; ``unchecked`` is how many of its endorsements nobody has looked at."""
    if as_json:
        print_json(
            {
                "path": str(path),
                "origin": proposal.origin,
                "after": proposal.after,
                "kind": proposal.kind,
                "body": proposal.body,
                "endorsements_not_checked": unchecked,
            }
        )
        return
    typer.echo(f"{path}: {printable(describe(proposal.kind, proposal.body))}")
    typer.echo(f"  log          {printable(proposal.origin)}, after the root action {proposal.after}")
    for name, value in proposal.body.items():
        if name not in ("endorsements", "action", "role", "name", "threshold") and value is not None:
            typer.echo(f"  {name:<13}{printable(str(value))}")
    for name in proposal.endorsers[:unchecked]:
        typer.echo(f"  not checked whether {name} endorsed it: that takes --ledger")
    typer.echo(f"  endorsed by {', '.join(proposal.endorsers[unchecked:]) or 'nobody yet'}")
