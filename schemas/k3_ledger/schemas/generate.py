"""Writes everything that follows from the models and the registry: ``python -m k3_ledger.schemas.generate [--check]``.

From :mod:`k3_ledger.schemas.models` come the JSON Schema 2020-12 files (one a kind, one for bundles), the msgspec
structs of :mod:`k3_ledger.schemas.structs` and ``docs/format-bodies.md``; from :mod:`k3_ledger.schemas.findings` comes
``docs/findings.md``. It is run at the top of a source tree; ``--check`` writes nothing, names what has drifted and
exits with 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from k3_ledger.schemas.generate_pages import bodies_page, findings_page
from k3_ledger.schemas.generate_schemas import documents, json_schema
from k3_ledger.schemas.generate_structs import structs_module

ROOM: Final = Path("schemas/k3_ledger/schemas")


def main(arguments: list[str], root: Path) -> int:
    """Write the files, or with ``--check`` compare them; 0 when all is well, 1 on drift, 2 on misuse."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write("usage: python -m k3_ledger.schemas.generate [--check]\n")
        return 2
    if not (root / ROOM).is_dir():
        sys.stderr.write(f"error: {root} is no source tree of k3-ledger: it has no {ROOM}\n")
        return 2
    files = generated()
    present = {path.relative_to(root) for path in (root / ROOM / "json").glob("*")}
    leftover = sorted(present - set(files))
    if not arguments:
        write(root, files, leftover)
        return 0
    drifted = [path for path, text in files.items() if not _is_as_written(root / path, text)] + leftover
    for path in drifted:
        sys.stderr.write(f"error: {path} has drifted from its source\n")
    if drifted:
        sys.stderr.write("hint: run python -m k3_ledger.schemas.generate and commit what changed\n")
    return 1 if drifted else 0


def generated() -> dict[Path, str]:
    """Every generated file and its text, by path relative to the source tree."""
    files = {
        ROOM / "json" / f"{name}.schema.json": json.dumps(json_schema(name), indent=2, ensure_ascii=False) + "\n"
        for name in documents()
    }
    files[ROOM / "structs.py"] = structs_module()
    files[Path("docs/findings.md")] = findings_page()
    files[Path("docs/format-bodies.md")] = bodies_page()
    return files


def write(root: Path, files: dict[Path, str], leftover: list[Path]) -> None:
    """Write ``files`` below ``root`` and remove schema files that nothing generates any more."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="\n")
    for path in leftover:
        (root / path).unlink()


def _is_as_written(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
