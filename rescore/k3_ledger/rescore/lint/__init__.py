"""Finding, from a rule alone, where its constraints stop meaning what they say.

The faults looked for have one origin: a constraint derived from where the system was when it was written. No history
is read; a rule's own parameters and the pins it was released with are enough to say from which frontier on a cap
credits more than was measured, at which speed a clock drowns, and which bar no input can tell from another.
"""
