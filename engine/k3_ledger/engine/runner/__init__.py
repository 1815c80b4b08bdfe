"""Measures an engine from outside: another process, the controller's clock, outputs that are checked.

The engine under test is a program that speaks the protocol of ``docs/measurement.md`` on its standard streams; ours is
one of them. The controller times every request on its own monotonic clock, grades parity on the very path it timed,
checks what timed runs put out, and leaves a bundle whatever happens: of kind ``run``, or ``failed`` with the reason.
"""
