"""Synthetic models, written once a session, and llama.cpp loaded with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("numpy")
pytest.importorskip("gguf")
torch = pytest.importorskip("torch")

from k3_ledger.engine.synth import preset, write_synthetic  # noqa: E402 (after the skips)
from k3_ledger.engine.weights import open_weights  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from k3_ledger.engine.weights import Weights


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # small tensors: more threads mostly wait for one another
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``synthetic("tiny", seed=3)`` is the path of that model, written the first time it is asked for."""
    folder = tmp_path_factory.mktemp("models")
    written: dict[str, Path] = {}

    def write(name: str, **changes: Any) -> Path:
        key = "-".join([name, *(f"{field}={value}" for field, value in sorted(changes.items()))])
        if key not in written:
            path = folder / f"{len(written)}-{name}.gguf"
            write_synthetic(preset(name, **changes), path)
            written[key] = path
        return written[key]

    return write


@pytest.fixture(scope="session")
def weights(synthetic: Callable[..., Path]) -> Callable[..., Weights]:
    """``weights("tiny")`` is that model opened and checked."""
    return lambda name, **changes: open_weights(synthetic(name, **changes))


@pytest.fixture(scope="session")
def llama(synthetic: Callable[..., Path]) -> Callable[..., Any]:
    """``llama("tiny")`` is that model in llama.cpp, a process of its own; skipped where ``xllamacpp`` is not there."""
    pytest.importorskip("xllamacpp")
    from k3_ledger.engine.parity.apart import LlamaCppApart

    loaded: dict[Path, LlamaCppApart] = {}

    def load(name: str, **changes: Any) -> LlamaCppApart:
        path = synthetic(name, **changes)
        if path not in loaded:
            opened = open_weights(path)
            loaded[path] = LlamaCppApart(path, opened.tokenizer(), opened.config.vocabulary, context=512, threads=1)
        return loaded[path]

    return load
