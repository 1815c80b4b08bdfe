"""Files of a witness's state: canonical JSON of a schema, read whole or refused with what is wrong.

:mod:`k3_ledger.ledger.witness.state` says what stands in them and what is to be done about a file that is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from k3_ledger.ledger.regular import open_regular, read_up_to, stands_there
from k3_ledger.schemas import canonical
from k3_ledger.schemas.errors import LedgerError, StoreError, WitnessError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE: Final = 2_000_000
"""Most bytes in a file of the state."""
LIMITS: Final = canonical.Limits(max_bytes=MAX_FILE, max_depth=3, max_string=MAX_FILE, max_items=256)


def read(path: Path, schema: str, members: set[str], more: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A file's document, with exactly these members; those in ``more`` may be missing.

    Raises:
        StoreError: it cannot be read; the cause is FileNotFoundError where it is not there.
        WitnessError: it is another document (``WITNESS_STATE``).
    """
    missing = not stands_there(path)
    try:
        with open_regular(path) as file:
            data = read_up_to(file, MAX_FILE + 1)
    except (StoreError, OSError) as error:
        raise StoreError(
            Code.WITNESS_STATE,
            "cannot read the state of the witness",
            position=Position(source=str(path)),
            found=error.finding.message if isinstance(error, StoreError) else error.strerror,
            hint=how_to_make(path.parent) if missing else None,
        ) from (FileNotFoundError(path) if missing else error)
    try:
        document = canonical.parse(data, limits=LIMITS)
    except LedgerError as error:
        raise damaged(path, error.finding.message) from None
    if not isinstance(document, dict) or document.keys() - more != members or document["schema"] != schema:
        raise damaged(path, f"not a document of the schema {schema}")
    return document


def left(root: Path) -> list[Path]:
    """What there is of logs: whatever tells that a witness was here."""
    return sorted(path for name in ("logs", "cosigned", "forks") for path in (root / name).glob("*"))


def how_to_make(root: Path) -> str:
    """What to do where there is no ``witness.json``."""
    if left(root):
        return "`k3-ledger witness init --restore` writes the file again, with the name and the key that it had"
    return "`k3-ledger witness init` makes a new witness"


def text(document: dict[str, Any], name: str) -> str:
    """A member that is text; anything else becomes a text that no check accepts."""
    return str(document[name])


def lost(path: Path, what: str) -> WitnessError:
    """The error about a file that was there."""
    return WitnessError(
        Code.WITNESS_STATE,
        f"what this witness remembered of the log {what} is lost, and it has cosigned heads of it",
        position=Position(source=str(path)),
    )


def damaged(path: Path, why: str) -> WitnessError:
    """The error about a file that is not as it was written."""
    return WitnessError(
        Code.WITNESS_STATE, f"the state of the witness is damaged: {why}", position=Position(source=str(path))
    )
