"""GGUF files behind our own checks: header, shards, storage types, and a streaming writer.

The reader believes nothing: every count and length is held against the size of the file before anything is
allocated, so a hostile header of a few bytes costs a few bytes. The constants of the format come from PyPI ``gguf``.
"""

from __future__ import annotations

from k3_ledger.engine.gguf.file import ModelFile, TensorView, open_model_file
from k3_ledger.engine.gguf.header import Header, TensorInfo, Value, parse_header
from k3_ledger.engine.gguf.writer import write_gguf

__all__ = [
    "Header",
    "ModelFile",
    "TensorInfo",
    "TensorView",
    "Value",
    "open_model_file",
    "parse_header",
    "write_gguf",
]
