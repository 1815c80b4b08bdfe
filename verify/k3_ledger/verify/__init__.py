"""Offline verification: bytes in, a report out.

The room takes bytes from a :class:`~k3_ledger.verify.source.LogSource` that the caller opened, and never opens
files, sockets or databases itself. It imports neither signing code nor anything that needs a GPU.

Start with :func:`k3_ledger.verify.log.check_log` (a report, never an exception about the data) or
:func:`k3_ledger.verify.log.verify_log` (a :class:`~k3_ledger.verify.log.VerifiedLog`, or an exception that carries
the report).
"""
