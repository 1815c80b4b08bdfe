"""A model file opened, checked and ready to be loaded: sizes, roles, tokenizer, and weights one at a time."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from k3_ledger.engine.config import K3Config, read_config
from k3_ledger.engine.digest import FileDigest, digest_file
from k3_ledger.engine.gguf.file import ModelFile, TensorView, open_model_file
from k3_ledger.engine.gguf.quants import Floats, dequantise
from k3_ledger.engine.tensors import OPTIONAL_TENSORS, check_tensors
from k3_ledger.engine.tokenizer import Tokenizer
from k3_ledger.schemas.errors import ModelError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from types import TracebackType

    from k3_ledger.engine.gguf.header import TensorInfo

_EMBEDDING: Final = "token_embd.weight"
_DECAY: Final = ".ssm_a"


@dataclass(frozen=True)
class Weights:
    """A checked model file.

    Attributes:
        file: the container.
        config: its sizes.
        tensors: tensors by role name; an allowed absence is not in it.
    """

    file: ModelFile
    config: K3Config
    tensors: dict[str, TensorInfo]

    @property
    def synthetic(self) -> bool:
        """Whether the file says that its weights are random."""
        return any(key.startswith("k3_ledger.synthetic.") for key in self.file.values)

    @property
    def quant(self) -> str:
        """Storage types of the routed experts and of the other matrices, such as ``MXFP4+Q8_0``."""
        experts: dict[str, None] = {}
        rest: dict[str, None] = {}
        for name, info in self.tensors.items():
            if len(info.shape) > 1 and "ssm_conv1d" not in name and "ffn_gate_inp" not in name:
                (experts if "_exps." in name else rest)[info.storage.name] = None
        return "+".join(dict.fromkeys([*experts, *rest]))

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the file carries."""
        return Tokenizer(self.file.values)

    def view(self, name: str) -> TensorView:
        """Stored bytes of a tensor, read where they are asked for."""
        return self.file.view(name)

    def load(self, name: str) -> Floats:
        """A tensor as float32, finite, and of the sign that it has by its meaning.

        Raises:
            ModelError: MODEL_WEIGHT_VALUE.
        """
        values = dequantise(self.view(name))
        if name.endswith(_DECAY) and values.max() > 0:
            raise ModelError(
                Code.MODEL_WEIGHT_VALUE,
                f"tensor {name!r} holds a rate of decay above 0: its state would grow without bound",
                position=Position(source=self.file.paths[0].name, field=name),
                expected="-exp(A), at most 0",
                found=f"{values.max():.6g}",
            )
        return values

    def digest(self) -> str:
        """Lower-case hex SHA-256 of the file, or of its parts' digests in order when it is split; reads every byte."""
        return joined([part.sha256 for part in self.digests()])

    def digests(self) -> list[FileDigest]:
        """Of every part, in order, as it was opened; see :func:`~k3_ledger.engine.digest.digest_file`.

        Raises:
            ModelError: UNREADABLE: a part cannot be read, or changed its length meanwhile.
        """
        return [
            _digest(path, descriptor) for path, descriptor in zip(self.file.paths, self.file.descriptors, strict=True)
        ]

    def close(self) -> None:
        """Releases the file."""
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _digest(path: Path, descriptor: int) -> FileDigest:
    try:
        return digest_file(Path(f"/proc/self/fd/{descriptor}"), name=path.name)
    except OSError as error:
        raise ModelError(
            Code.UNREADABLE,
            f"cannot read {path.name}: {error.strerror or error}",
            position=Position(source=path.name),
        ) from error


def joined(parts: list[str]) -> str:
    """The digest of a model whose parts have these."""
    if len(parts) == 1:
        return parts[0]
    return hashlib.sha256("".join(f"{part}\n" for part in parts).encode()).hexdigest()


def open_weights(
    path: Path, *, allow_missing: frozenset[str] = frozenset(), allow_unknown: frozenset[str] = frozenset()
) -> Weights:
    """Opens a model file and holds it against the architecture.

    Args:
        path: the file, or any part of a split one.
        allow_missing: optional keys (``vocab_size`` …) and tensor stems (``attn_gate`` …) that may be absent.
        allow_unknown: tensors that may stand in the file without a role.

    Raises:
        ModelError: the first thing that is wrong.
    """
    file = open_model_file(path)
    embedding = file.tensors.get(_EMBEDDING)
    if embedding is None:
        raise ModelError(
            Code.MODEL_TENSOR_MISSING
            if file.values.get("general.architecture") == "kimi-k3"
            else Code.MODEL_ARCHITECTURE,
            f"tensor {_EMBEDDING!r} is missing",
            position=Position(source=path.name, field=_EMBEDDING),
        )
    keys, stems = _sort_allowed(allow_missing)
    config = read_config(file.values, embedding_rows=embedding.shape[0], allow_missing=keys)
    tensors = check_tensors(file, config, allow_missing=stems, allow_unknown=allow_unknown)
    return Weights(file, config, tensors)


def _sort_allowed(names: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Splits the names into keys and tensor stems; whatever is neither goes to the keys, which refuse it."""
    return names - OPTIONAL_TENSORS, names & OPTIONAL_TENSORS
