"""The tiles of a tree as c2sp.org/tlog-tiles says, by definition and recursion. Imports no room of the project."""

from __future__ import annotations

from tests.reference.naive_merkle import leaf, root


def perfect(level: int, index: int, leaves: list[bytes]) -> bytes:
    """Root of the perfect subtree over leaves ``[index * 2^level, (index + 1) * 2^level)``."""
    return root(leaves[index * 2**level : (index + 1) * 2**level])


def path(number: int) -> str:
    text = str(number)
    text = "0" * (-len(text) % 3) + text
    parts = [text[i : i + 3] for i in range(0, len(text), 3)]
    return "/".join(["x" + part for part in parts[:-1]] + parts[-1:])


def files(lines: list[bytes]) -> dict[str, bytes]:
    """Every tile and entry bundle of the tree over ``lines``, by path."""
    leaves = [leaf(line) for line in lines]
    found: dict[str, bytes] = {}

    def put(level: str, number: int, parts: list[bytes]) -> None:
        partial = "" if len(parts) == 256 else f".p/{len(parts)}"
        found[f"tile/{level}/{path(number)}{partial}"] = b"".join(parts)

    for number in range((len(lines) + 255) // 256):
        some = lines[number * 256 : number * 256 + 256]
        put("entries", number, [len(line).to_bytes(2, "big") + line for line in some])
    level = 0
    while len(leaves) // 256**level:
        count = len(leaves) // 256**level
        for number in range((count + 255) // 256):
            places = range(number * 256, min(number * 256 + 256, count))
            put(str(level), number, [perfect(8 * level, place, leaves) for place in places])
        level += 1
    return found
