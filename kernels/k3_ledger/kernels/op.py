"""What an operation is: one signature, one check of its arguments, and two implementations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Op(Generic[P, R]):
    """One operation.

    Attributes:
        name: name of the operation, and of the package ``k3_ledger.kernels.<package>`` where it is not overridden.
        check: raises ValueError or TypeError for arguments that the contract in ``naive`` excludes.
        naive: the specification. Computes in float64 and returns the stored type of its inputs.
        package: package that holds ``triton_.py``, whose function ``name`` has the signature of ``naive``.
    """

    name: str
    check: Callable[P, None]
    naive: Callable[P, R]
    package: str
