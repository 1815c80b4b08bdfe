"""The engine: K3-shaped models from GGUF files, their forward pass, and parity against an independent engine.

This room promises that a file is checked before it is believed, that the forward pass is the one written in
``docs/engine.md``, and that a parity record says exactly which path, chunk width and reference it was taken on.
Sealing, verdicts and timing belong to other rooms. Torch is imported by the modules that compute, not by this one.
"""
