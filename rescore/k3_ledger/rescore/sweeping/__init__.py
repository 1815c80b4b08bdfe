"""Tiers of long ledgers in integers: :mod:`~k3_ledger.rescore.sweep` is the way in.

``fields`` decodes what a rule reads, ``numbers`` are a rule's numbers as integers, ``prepare`` reads receipts one by
one and in any process, and ``settle`` grades them in the ledger's order.
"""
