"""Rules of scoring as frozen parameters, their dated history, and the arithmetic that applies them.

``parameters`` says what a rule is made of, ``history`` holds every rule there was, ``registry`` finds one by name or
moment, and ``score`` applies one to a run. There is one module for each arithmetic.
"""
