"""Faults of the operating system, injected into whole commands with strace; what must hold after each.

``python -m tests.faults`` (or ``make attacks``) counts the system calls that each command makes in a clean run, then
repeats it once for every call and every fault: the call fails, fails from then on, or the process is killed in front
of it. :mod:`tests.faults.programs` says what must hold afterwards. Needs strace, and the right to trace one's own
children; :func:`tests.faults.tracing.missing` says in words what is not there.
"""
