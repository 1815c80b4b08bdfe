"""Tokenizer of K3 files: tiktoken-style byte-level BPE, built from the GGUF's own vocabulary and nothing else."""

from __future__ import annotations

from k3_ledger.engine.tokenizer.bpe import Tokenizer
from k3_ledger.engine.tokenizer.synthetic import SyntheticVocabulary, synthetic_vocabulary

__all__ = ["SyntheticVocabulary", "Tokenizer", "synthetic_vocabulary"]
