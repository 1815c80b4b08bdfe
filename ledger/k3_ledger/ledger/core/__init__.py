"""Pure parts of a ledger: framing, chain, signatures, Merkle tree, signed notes, checkpoints, proof files.

Bytes in, values out. Every checker raises a :class:`~k3_ledger.schemas.errors.LedgerError` that names what is wrong
and where; none returns a bool. Nothing here reads a file, holds a secret key or looks at the clock.
"""
