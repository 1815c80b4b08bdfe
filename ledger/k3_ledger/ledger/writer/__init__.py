"""The half of the ledger that touches disks and private keys.

What is promised here: whatever a call acknowledged is on stable storage; a call that failed acknowledged nothing and
says what state it left behind and what to do. What is left to others: deciding whether a log is true
(:mod:`k3_ledger.verify`), and the format itself (:mod:`k3_ledger.ledger.core`).

Start with :class:`k3_ledger.ledger.writer.store.Ledger` and :func:`k3_ledger.ledger.writer.keys.load_signer`.
"""
