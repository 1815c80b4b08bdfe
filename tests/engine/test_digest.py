"""A model file is named by all of its bytes, in every run; the cache only saves hashing them a second time."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from k3_ledger.engine import digest
from k3_ledger.engine.digest import default_cache, digest_file, tree_hash
from k3_ledger.engine.weights import open_weights
from k3_ledger.ledger.core.chain import leaf_hash
from k3_ledger.ledger.core.merkle import CompactRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SIZES = (0, 1, 63, 64, 65, 128, 129, 64 * 7, 64 * 9 + 1)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "BLOCK", 64)


def content(size: int, seed: int = 0) -> bytes:
    return hashlib.shake_256(bytes([seed])).digest(size)


@pytest.mark.parametrize("size", SIZES)
def test_the_digest_is_that_of_the_bytes_and_the_tree_that_of_the_ledger(size: int, tmp_path: Path) -> None:
    data = content(size)
    (tmp_path / "m").write_bytes(data)
    blocks = [data[at : at + 64] for at in range(0, size, 64)] or [b""]
    tree = CompactRange()
    for block in blocks:
        tree.append(leaf_hash(block))
    for _ in range(2):
        found = digest_file(tmp_path / "m", tmp_path / "cache")
        assert (found.sha256, found.merkle, found.size) == (
            hashlib.sha256(data).hexdigest(),
            tree.root().hex(),
            size,
        )
    assert found.cached == (size > 64)


def test_a_file_changed_under_the_same_size_and_times_is_another_file(tmp_path: Path) -> None:
    """Weights swapped in place: whatever a file system can be made to say, bytes decide."""
    path = tmp_path / "m"
    path.write_bytes(content(1000))
    before, times = digest_file(path, tmp_path / "cache"), path.stat()
    for at in (0, 500, 999):
        data = bytearray(content(1000))
        data[at] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        found = digest_file(path, tmp_path / "cache")
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)
        assert not found.cached
        assert found.sha256 == hashlib.sha256(data).hexdigest() != before.sha256
    path.write_bytes(content(1000))
    assert digest_file(path, tmp_path / "cache") == digest.FileDigest(before.sha256, before.merkle, 1000, cached=True)


@pytest.mark.parametrize("garbage", [b"", b"abc", b"\xff" * 64, b"A" * 64, b"0" * 65, b"0" * 64 + b"\n\n"])
def test_a_cache_that_holds_something_else_is_none(garbage: bytes, tmp_path: Path) -> None:
    path, cache = tmp_path / "m", tmp_path / "cache"
    path.write_bytes(content(1000))
    first = digest_file(path, cache)
    (cache / first.merkle).write_bytes(garbage)
    assert digest_file(path, cache) == first
    assert (cache / first.merkle).read_text() == f"{first.sha256}\n"
    assert [one.name for one in cache.iterdir()] == [first.merkle]


def test_a_cache_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(content(1000))
    (tmp_path / "cache").write_bytes(b"a file")
    for cache in (tmp_path / "cache", None):
        assert not digest_file(tmp_path / "m", cache).cached


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m"
    path.write_bytes(content(1000))

    def swap(leaves: list[bytes]) -> bytes:
        path.write_bytes(content(1000, seed=1))
        return tree_hash(leaves)

    monkeypatch.setattr(digest, "tree_hash", swap)
    with pytest.raises(OSError, match="changed while"):
        digest_file(path, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_file_that_becomes_shorter_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"x")
    with path.open("rb") as file, pytest.raises(OSError, match="shorter"):
        digest._read(file.fileno(), 2, 0)


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "k3-ledger" / "weights"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache() == tmp_path / "home" / ".cache" / "k3-ledger" / "weights"


def test_the_digest_is_of_the_file_that_was_opened(synthetic: Callable[..., Path], tmp_path: Path) -> None:
    """Whatever its name leads to when it is read."""
    model = tmp_path / "m.gguf"
    model.write_bytes(synthetic("tiny").read_bytes())
    with open_weights(model) as weights:
        before = hashlib.sha256(model.read_bytes()).hexdigest()
        model.rename(tmp_path / "kept")
        model.write_bytes(b"another")
        assert weights.digest() == before
        assert weights.file.named() != weights.file.identities()
        model.unlink()
        assert weights.file.named() == [None]
