"""What surrounds a body: kinds, who may sign them, sizes, and the bytes of an entry put together.

Imports nothing but the standard library, so the verifier's and the appender's hot paths can use it without pydantic.
"""

from __future__ import annotations

from typing import Final, Literal

MAX_LINE: Final = 65_535
"""Longest line of a ledger, in bytes, without its LF: tile entry bundles carry 16-bit lengths."""
MAX_ENTRY: Final = MAX_LINE - 9 - 98
"""Longest entry, in bytes: a line less its constant head and tail."""

Kind = Literal[
    "genesis", "key", "threshold", "run", "verdict", "rule", "pin", "supersede",
    "import", "round", "merge", "failed", "witness", "note",
]  # fmt: skip
Role = Literal["root", "log", "runner", "judge", "witness"]

SIGNING_ROLES: Final[dict[str, frozenset[str]]] = {
    "genesis": frozenset({"root"}),
    "key": frozenset({"root"}),
    "threshold": frozenset({"root"}),
    "run": frozenset({"runner"}),
    "failed": frozenset({"runner"}),
    "verdict": frozenset({"judge"}),
    "rule": frozenset({"judge"}),
    "pin": frozenset({"judge"}),
    "merge": frozenset({"judge"}),
    "round": frozenset({"judge"}),
    "supersede": frozenset({"judge"}),
    "import": frozenset({"log"}),
    "witness": frozenset({"log"}),
    "note": frozenset({"root", "log", "runner", "judge", "witness"}),
}
"""Which roles may sign an entry of each kind. Checkpoints are signed by the ``log`` role."""
JUDGED_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "verdicts": ("verdict", "rule", "supersede"),
    "pins": ("pin", "merge"),
}
"""Kinds whose truth rests on what other entries say, by the step of verification that derives it anew.

Whoever asks which entries wait for these steps asks here. Every other kind is in :data:`SELF_CONTAINED`.
"""
SELF_CONTAINED: Final = frozenset(
    {"genesis", "key", "threshold", "run", "failed", "round", "import", "witness", "note"}
)
"""Kinds that are settled when the log's bytes have been read: by their signer, their own body and their references."""
ROOT_ACTIONS: Final = frozenset({"key", "threshold"})
"""Kinds that change which keys count; each needs as many root keys as the threshold in force says."""
MOST_ENDORSEMENTS: Final = 16
"""Endorsements that a root action may carry; its signer counts beside them."""
REFERENCES: Final[dict[str, tuple[str, ...]]] = {
    "verdict": ("target",),
    "pin": ("source",),
    "supersede": ("target", "replacement"),
    "round": ("frontier", "runs"),
    "merge": ("run",),
}
"""Body fields that hold identities of earlier entries, by kind."""
_RECEIPTS: Final = frozenset({"run", "failed", "import"})
_NAMES_ONLY: Final = {("round", "frontier"): _RECEIPTS, ("round", "runs"): _RECEIPTS, ("merge", "run"): _RECEIPTS}
_NEVER_NAMED: Final = ROOT_ACTIONS | {"genesis"}


def may_name(kind: str, field: str, target: str) -> bool:
    """Whether an entry of ``kind`` can be about one of the kind ``target``, which it names in a field.

    A round and a merge are about receipts, and nothing is about what says which keys count: a judge has no word there.
    What a verdict or a pin needs beyond that, its own step looks for.
    """
    return target not in _NEVER_NAMED and target in _NAMES_ONLY.get((kind, field), (target,))


def schema_of(kind: str) -> str:
    """The ``schema`` of version 1 entries of ``kind``."""
    return f"k3-ledger/{kind}/1"


def format_entry_around(body: bytes, *, index: int, key: str, kind: str, prev: str, time: str) -> bytes:
    """The canonical bytes of an entry around the canonical bytes of its body.

    Equal to formatting the whole entry, at the cost of one concatenation: ``body`` sorts before every other key. The
    caller answers for the arguments: they are written as they are.

    Args:
        body: canonical bytes of a valid body of ``kind``.
        index: position in the log, 0 <= index <= 2**53 - 1.
        key: signer's key id, 64 hexadecimal digits.
        kind: one of :data:`Kind`.
        prev: identity of the previous entry, 64 hexadecimal digits.
        time: ``YYYY-MM-DDTHH:MM:SSZ``.
    """
    return (
        b'{"body":%b,"index":%d,"key":"%b","kind":"%b","prev":"%b","schema":"k3-ledger/%b/1","time":"%b"}'
        % (body, index, key.encode(), kind.encode(), prev.encode(), kind.encode(), time.encode())
    )  # fmt: skip
