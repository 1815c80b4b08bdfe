"""The ledger room: what a ledger is (``core``, pure) and what writes one (``writer``).

``core`` turns bytes into values and checks hashes, signatures and proofs; it opens no file, holds no secret key and
imports neither pydantic nor msgspec. ``writer`` does the rest: keys, storage, locks, durability.
"""
