"""Fuzzing of everything that reads bytes from strangers.

A target takes bytes; whatever they are, it ends in bounded time, and either it succeeds or it raises a
:class:`~k3_ledger.schemas.errors.LedgerError`. Many targets promise more: what was read is written again as the same
bytes, two ways of reading agree. :mod:`tests.fuzz.targets` lists them all.

``make fuzz`` (or ``python -m tests.fuzz``) runs each for a fixed number of executions, with atheris where it is
installed and with a plain mutator elsewhere, beginning from the corpus: one file a target under ``corpus/``, a line of
base64 an input, all of it made by this project's own code. What once broke a target stays in ``findings/`` the same
way; ``make test`` runs every target on both.
"""
