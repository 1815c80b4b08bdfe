"""Tests of every room, one folder a room. Helpers that several rooms share live in ``tests.support``."""
