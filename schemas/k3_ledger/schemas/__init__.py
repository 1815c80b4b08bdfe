"""Pure data definitions: what a ledger is made of and the words used to speak about it.

This room promises models, canonical bytes, errors, outcomes and finding codes. It performs no I/O, knows no
keys and checks no signatures; those belong to the rooms above it.

Modules are imported by name (``k3_ledger.schemas.models``): the package itself imports nothing, so that a
program that verifies ledgers never pays for pydantic.
"""
