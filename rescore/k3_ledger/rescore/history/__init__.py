"""What the public history of sparkinfer-k3 adds to its log: dated pins, dated rules, and where each was read.

Figures only; each row cites the commit it was read from. A value taken from here is marked
inferred wherever it is used.
"""
