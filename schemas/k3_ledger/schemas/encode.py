"""One way to write an entry from plain values: fast where that suffices, explained where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from k3_ledger.schemas import canonical
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.envelope import MAX_ENTRY, schema_of
from k3_ledger.schemas.errors import SchemaError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position
from k3_ledger.schemas.structs import encode_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMITS: Final = canonical.Limits(max_bytes=1 << 24)
"""An entry that is too long is still written, so that it can be said which of its fields is the largest."""


def encode(kind: str, body: Mapping[str, object], *, index: int, key: str, prev: str, time: str) -> tuple[bytes, Any]:
    """The canonical bytes of an entry, and the entry typed as :func:`k3_ledger.schemas.decode.decode` types it.

    Args:
        kind: one of :data:`k3_ledger.schemas.envelope.Kind`.
        body: plain values, every field written out.
        index: position in the log.
        key: signer's key id.
        prev: identity of the previous entry.
        time: ``YYYY-MM-DDTHH:MM:SSZ``.

    Raises:
        MalformedError: a value has no canonical spelling.
        SchemaError: the entry does not fit its kind, or is too long for a line.
    """
    values: dict[str, object] = {
        "body": body,
        "index": index,
        "key": key,
        "kind": kind,
        "prev": prev,
        "schema": schema_of(kind),
        "time": time,
    }
    fast = encode_entry(values)
    if fast is not None:
        return fast
    entry = canonical.format({**values, "body": dict(body)}, limits=_LIMITS)
    if len(entry) > MAX_ENTRY:
        raise _too_long(body, len(entry))
    return entry, decode(entry, Position(index=index))


def _too_long(body: Mapping[str, object], length: int) -> SchemaError:
    sizes = {name: len(canonical.format(value, limits=_LIMITS)) for name, value in body.items()}
    name = max(sizes, key=sizes.__getitem__)
    return SchemaError(
        Code.ENTRY_TOO_LONG,
        f"the entry would take {length:,} bytes; its largest field is body.{name} with {sizes[name]:,}",
        position=Position(field=f"body.{name}"),
        expected=f"at most {MAX_ENTRY:,} bytes",
        found=f"{length:,} bytes",
        hint=f"store {name} as an artifact (a file in the bundle) and keep its digest and a summary in the entry",
    )
