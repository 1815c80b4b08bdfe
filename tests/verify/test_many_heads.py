"""Many kept heads of a log with many keys: the work is that of the two together, and not their product.

Counted are the keys that are hashed and the lives that are asked, whatever the machine and its clock do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core import keylife, note
from k3_ledger.schemas import canonical
from k3_ledger.schemas.findings import Code
from k3_ledger.verify import signers
from k3_ledger.verify.log import check_log
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.source import MemorySource
from tests.commands import runner
from tests.ledgers import LOG, ORIGIN, ROOT, Builder, Key, key_body, sign_head

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POLICY = TrustPolicy(ROOT.public, ORIGIN)


def rotated(count: int, signer: Callable[[list[Key]], Key]) -> MemorySource:
    """A log whose log key was rotated so often, and a head kept behind each rotation."""
    ledger, keys, kept = Builder().open(), [LOG], []
    for number in range(count):
        keys.append(Key(f"log-{number}"))
        ledger.add("key", key_body(keys[-1], "log", "rotate", replaces=keys[-2].id), ROOT)
        size = len(ledger.lines)
        kept.append((f"checkpoints/{size:012}.note", sign_head(ledger.lines, signer(keys))))
    return MemorySource(ledger.data, checkpoint=sign_head(ledger.lines, keys[-1]), kept=tuple(kept))


SIGNERS: dict[str, tuple[Callable[[list[Key]], Key], Code | None]] = {
    "by the key that stands": (lambda keys: keys[-1], None),
    "by one that was rotated out": (lambda keys: keys[0], Code.CHECKPOINT_SIGNATURE),
    "by nobody's key": (lambda _: Key("stranger"), Code.CHECKPOINT_SIGNATURE),
}


def counted(monkeypatch: pytest.MonkeyPatch, source: MemorySource) -> tuple[int, dict[Code, int]]:
    """How many keys were hashed and asked, and what was found."""
    calls = 0

    def counting(function: Callable[..., object]) -> Callable[..., object]:
        def called(*given: object, **named: object) -> object:
            nonlocal calls
            calls += 1
            return function(*given, **named)

        return called

    with monkeypatch.context() as patch:
        for module in (note, signers):
            patch.setattr(module, "key_hash", counting(module.key_hash))
        patch.setattr(keylife.KeyLife, "lost_at", counting(keylife.KeyLife.lost_at))
        report = check_log(source, POLICY)
    return calls, dict(report.counts)


@pytest.mark.parametrize("how", SIGNERS)
def test_twice_the_heads_and_keys_take_twice_the_work(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    signer, code = SIGNERS[how]
    (few, first), (many, second) = (counted(monkeypatch, rotated(count, signer)) for count in (20, 40))
    assert many <= 2 * few + 10, (few, many)
    assert few <= 20 * 12
    assert (first, second) == (({}, {}) if code is None else ({code: first[code]}, {code: second[code]}))
    assert code is None or second[code] - first[code] == 20


def test_each_older_head_of_a_bundle_is_read_twice_where_it_is_made_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once as it is written, once as it is verified: a ledger keeps thousands of heads, and this costs most."""
    run, parse = runner(monkeypatch, capsys), canonical.parse_value
    calls = 0

    def counting(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return parse(*given, **named)

    monkeypatch.setattr(canonical, "parse_value", counting)
    ledger = Builder().open().runs(24)
    made = []
    for heads in (8, 16):
        folder = tmp_path / str(heads)
        (folder / "checkpoints").mkdir(parents=True)
        ledger.write(folder)
        for size in range(5, 5 + heads):
            (folder / "checkpoints" / f"{size:012}.note").write_bytes(sign_head(ledger.lines[:size]))
        calls = 0
        assert run("bundle", "pack", folder, "--entries", 7, "--out", tmp_path / f"{heads}.tar").code == 0
        made.append(calls)
    assert made[1] - made[0] == 2 * 8
