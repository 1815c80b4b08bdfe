"""Operations of a K3-shaped forward pass: a naive version beside each kernel, one dispatch in front.

Every operation is a package: ``naive.py`` is the specification in torch, computed in float64 whatever the storage
type; ``triton_.py`` is the kernel; ``__init__.py`` holds its ``OP``, which ties both to one signature and one check of
the arguments. This room knows torch and triton and nothing else of this project. Start at :mod:`.dispatch`.
"""

from __future__ import annotations
