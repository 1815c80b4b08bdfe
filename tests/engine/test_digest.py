"""A model file is named by all of its bytes, in every run, whatever anybody remembers of it."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from k3_ledger.engine import digest
from k3_ledger.engine.digest import digest_file
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
    found = digest_file(tmp_path / "m")
    assert (found.sha256, found.merkle, found.size) == (hashlib.sha256(data).hexdigest(), tree.root().hex(), size)


def test_a_file_changed_under_the_same_size_and_times_is_another_file(tmp_path: Path) -> None:
    """Weights swapped in place: whatever a file system can be made to say, bytes decide."""
    path = tmp_path / "m"
    path.write_bytes(content(1000))
    before, times = digest_file(path), path.stat()
    for at in (0, 500, 999):
        data = bytearray(content(1000))
        data[at] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        found = digest_file(path)
        assert (path.stat().st_size, path.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)
        assert found.sha256 == hashlib.sha256(data).hexdigest() != before.sha256


def test_nothing_that_lies_in_a_folder_of_the_users_becomes_a_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine of the same user may have put it there: a cache named by the Merkle digest was believed."""
    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "mine"))
    data = content(1000)
    (tmp_path / "m").write_bytes(data)
    found = digest_file(tmp_path / "m")
    for folder in ("mine/k3-ledger/weights", "mine/.cache/k3-ledger/weights"):
        (tmp_path / folder).mkdir(parents=True)
        for name in (found.merkle, found.sha256):
            (tmp_path / folder / name).write_text(f"{0:064d}\n")
    before = sorted(tmp_path.rglob("*"))
    assert digest_file(tmp_path / "m") == found
    assert found.sha256 == hashlib.sha256(data).hexdigest()
    assert sorted(tmp_path.rglob("*")) == before, "and nothing is remembered"


@pytest.mark.parametrize("left", [0, 64, 100, 999, 1001, 2000])
def test_a_file_that_changes_its_length_while_it_is_read_is_refused(
    left: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    path.write_bytes(content(1000))
    real = digest._leaf

    def shorten(block: bytes) -> bytes:
        os.truncate(path, left)
        return real(block)

    monkeypatch.setattr(digest, "_leaf", shorten)
    with pytest.raises(OSError, match="the model changed its length"):
        digest_file(path, name="the model")


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
