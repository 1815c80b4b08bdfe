"""Slow second implementations, written from the specifications. They import no room of the project."""
