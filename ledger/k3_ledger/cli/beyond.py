"""What stands in a log behind its newest head, and is in nothing that is made of that head."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable


class Beyond(NamedTuple):
    """What a head does not commit to.

    Attributes:
        entries: how many.
        actions: how many of them say which keys count: a revocation among them takes back what stands in front of it.
    """

    entries: int = 0
    actions: int = 0

    def as_dict(self) -> dict[str, int]:
        """JSON form."""
        return {"entries": self.entries, "root_actions": self.actions}

    def tell(self, what: str) -> None:
        """Say on stderr that it was left out of something, where there is anything."""
        if not self.entries:
            return
        more = f", {self.actions} root actions among them, which say whose entries count" if self.actions else ""
        said = f"{self.entries} entries behind the newest head are not in {what}{more}"
        typer.echo(f"note: {said}: sign a head (`k3-ledger checkpoint`), then make it again", err=True)


def read_beyond(blocks: Iterable[bytes], size: int) -> Beyond:
    """What stands behind the first ``size`` lines of a log; a line that is not whole is none."""
    from k3_ledger.ledger.core.framing import parse_line
    from k3_ledger.schemas.decode import decode
    from k3_ledger.schemas.envelope import ROOT_ACTIONS
    from k3_ledger.schemas.errors import LedgerError

    left, held, found = size, b"", Beyond()
    for block in blocks:
        count = block.count(b"\n")
        if left > count:
            left -= count
            continue
        *lines, held = (held + block).split(b"\n")
        for line in lines[left:]:
            try:
                action = decode(parse_line(line).entry).kind in ROOT_ACTIONS
            except LedgerError:  # verify's to report
                action = False
            found = Beyond(found.entries + 1, found.actions + action)
        left = 0
    return found
