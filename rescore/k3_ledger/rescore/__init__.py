"""Judging what was measured: rules and their history, replay, pins, frontier and claims.

This room promises that every verdict is exact (integers and fractions, never a binary float), that each
intermediate value can be shown, and that nothing is scored on a guess: what is missing is named.

It performs no I/O, signs nothing, opens no socket and trusts nothing it is handed: that entries are verified is
the promise of the ``verify`` room, whose types it takes. Modules are imported by name.
"""
