"""Tests of the engine: the only ones, with those of the kernels, that import torch."""
