"""``checkpoint`` signs nothing that ``verify`` would call false: one list of false entries, asked of both."""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.cli import signable
from k3_ledger.cli.signable import check_signable
from k3_ledger.cli.verify import check_ledger
from k3_ledger.ledger.writer.checkpoint import make_checkpoint
from k3_ledger.ledger.writer.keys import Signer
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.errors import LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.verify import work
from k3_ledger.verify.log import Options
from k3_ledger.verify.source import MemorySource
from tests.ledgers import JUDGE, LOG, ROOT, RUNNER, Builder, Key, genesis_body, key_body, run_body, threshold_body
from tests.rescore.receipts import DECODE, pin_body
from tests.rescore.test_replay import HOUSE, rule_body

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

A = Key("A")
WEAK = "01" + "00" * 31
"""The identity of the curve: everybody signs for it."""


def two_roots() -> Builder:
    ledger = Builder().open()
    ledger.act("key", key_body(A, "root"), ROOT)
    return ledger


def note(ledger: Builder, signer: Key = JUDGE) -> str:
    return ledger.add("note", {"text": "x", "artifacts": []}, signer)


def supersede(ledger: Builder, target: str, replacement: str | None = None) -> None:
    ledger.add("supersede", {"target": target, "reason": "x", "replacement": replacement}, JUDGE)


def _threshold(ledger: Builder) -> None:
    ledger.act("threshold", threshold_body(2), ROOT)
    ledger.add("key", key_body(Key("new"), "runner"), ROOT)


def _forged_endorsement(ledger: Builder) -> None:
    body = ledger.endorsed("key", key_body(Key("new"), "runner"), A)
    ledger.add("key", {**body, "reason": "another"}, ROOT)


def _weak(ledger: Builder) -> None:
    raw = bytes.fromhex(WEAK)
    body = {**key_body(A, "runner"), "public_key": WEAK, "key_id": sha256(raw).hexdigest(), "name": "weak"}
    ledger.add("key", body, ROOT)


def _merge(ledger: Builder) -> None:
    body = {"pull_request": None, "commit": "c" * 40, "run": None, "claimed": "0", "slot": f"frontier:{DECODE}"}
    ledger.add("merge", body, JUDGE)


def _witness(ledger: Builder) -> None:
    body = {"witness": "w.example/1", "checkpoint_sha256": "0" * 64, "cosignature": "no line"}
    ledger.add("witness", body, LOG)


def _import(ledger: Builder) -> None:
    body = {
        "format": "polaris/1", "foreign_id": "f", "original_sha256": "e" * 64, "attestation": "none", "fields": [],
        "findings": [], "artifacts": [{"name": "a", "sha256": "a" * 64, "size": 1, "media_type": "text/plain"}],
    }  # fmt: skip
    ledger.add("import", body, LOG)


def _overlapping() -> dict[str, Any]:
    body = run_body(1)
    body["timing"][0]["samples"][1]["start_ns"] = 0
    return body


FALSE: dict[str, Callable[[Builder], object]] = {
    "a threshold that is not met": _threshold,
    "a threshold that nobody can meet": lambda ledger: ledger.act("threshold", threshold_body(9), ROOT),
    "an endorsement of something else": _forged_endorsement,
    "a weak key": _weak,
    "a key enrolled twice": lambda ledger: ledger.add("key", key_body(JUDGE, "judge"), ROOT),
    "a key under another id": lambda ledger: ledger.add("key", key_body(Key("n"), "judge", key_id="0" * 64), ROOT),
    "a revocation of nobody": lambda ledger: ledger.add("key", key_body(Key("n"), "judge", "revoke"), ROOT),
    "a signer of another role": lambda ledger: ledger.add("run", run_body(1), JUDGE),
    "a second genesis": lambda ledger: ledger.add("genesis", genesis_body(), ROOT),
    "repetitions that overlap": lambda ledger: ledger.add("run", _overlapping(), RUNNER),
    "a bundle of another run": lambda ledger: ledger.add("run", run_body(1, bundle="0" * 64), RUNNER, seal=False),
    "a reference to nothing": lambda ledger: supersede(ledger, "0" * 64),
    "a reference to an enrolment": lambda ledger: supersede(ledger, ledger.newest_action),
    "an entry in its own place": lambda ledger: supersede(ledger, name := note(ledger), name),
    "a pin that nobody measured": lambda ledger: ledger.add(
        "pin", pin_body(f"frontier:{DECODE}", "5", note(ledger)), JUDGE
    ),
    "a winner that claims nothing": _merge,
    "a rule under another's digest": lambda ledger: ledger.add(
        "rule", {**rule_body(HOUSE), "rule_sha256": "9" * 64}, JUDGE
    ),
    "a cosignature that is none": _witness,
    "an import without its original": _import,
}  # fmt: skip


def sign(folder: Path, ledger: Builder, head: bytes | None = None) -> Any:
    """What ``checkpoint`` does."""
    (folder / "ledger.jsonl").write_bytes(ledger.data)
    for path in (folder / "checkpoint", *(folder / "checkpoints").glob("*")):
        path.unlink(missing_ok=True)
    if head is not None:
        (folder / "checkpoint").write_bytes(head)
    opened = Ledger.open(folder)
    return make_checkpoint(opened, Signer(bytes(LOG.signing)), check=partial(check_signable, opened.log_path))


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("what", FALSE)
def test_nothing_is_signed_over_what_verify_calls_false(what: str, older: bool, tmp_path: Path) -> None:
    ledger = two_roots()
    head = ledger.head() if older else None
    assert sign(tmp_path, ledger, head).added is not older
    before = len(ledger.lines)
    FALSE[what](ledger)
    assert len(ledger.lines) > before
    report = check_ledger(MemorySource(ledger.data), None, Options())
    assert report.exit_code == 1
    with pytest.raises(LedgerError) as caught:
        sign(tmp_path, ledger, head)
    assert caught.value.code in report.counts
    assert (tmp_path / "checkpoint").exists() is older
    assert not older or (tmp_path / "checkpoint").read_bytes() == head


@pytest.mark.parametrize("what", FALSE)
def test_what_an_earlier_head_covers_keeps_nobody_from_signing(what: str, tmp_path: Path) -> None:
    """It is false for ever, whatever head stands over it; and a false entry behind it is refused all the same."""
    ledger = two_roots()
    FALSE[what](ledger)
    head = ledger.head()
    note(ledger)
    assert sign(tmp_path, ledger, head).checkpoint.size == len(ledger.lines)
    supersede(ledger, "0" * 64)
    with pytest.raises(LedgerError) as caught:
        sign(tmp_path, ledger, head)
    assert caught.value.code is Code.REFERENCE_UNKNOWN


def test_the_very_bytes_that_are_signed_are_the_ones_that_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = two_roots()
    note(ledger)
    blocks = signable._Lines.blocks
    other = ledger.data.replace(b'"text":"x"', b'"text":"y"')
    monkeypatch.setattr(signable._Lines, "blocks", lambda _: iter([other]))
    with pytest.raises(StoreError) as caught:
        sign(tmp_path, ledger)
    assert (caught.value.code, (tmp_path / "checkpoint").exists()) == (Code.CHANGED_WHILE_READ, False)
    monkeypatch.setattr(signable._Lines, "blocks", blocks)
    assert sign(tmp_path, ledger).added


def test_a_log_that_grows_meanwhile_is_checked_up_to_what_is_signed(tmp_path: Path) -> None:
    ledger = two_roots()
    (tmp_path / "ledger.jsonl").write_bytes(ledger.data)
    opened, grown = Ledger.open(tmp_path), []

    def check(candidate: Any) -> None:
        if not grown:
            grown.append(candidate.checkpoint.size)
            longer = Builder(list(ledger.lines))
            note(longer)
            opened.log_path.write_bytes(longer.data)
        check_signable(opened.log_path, candidate)

    made = make_checkpoint(opened, Signer(bytes(LOG.signing)), check=check)
    assert made.checkpoint.size == grown[0] == len(ledger.lines)


def test_where_nothing_is_new_nothing_is_checked_again(tmp_path: Path) -> None:
    ledger = two_roots()
    (tmp_path / "ledger.jsonl").write_bytes(ledger.data)
    opened, asked = Ledger.open(tmp_path), []
    for added in (True, False):
        made = make_checkpoint(opened, Signer(bytes(LOG.signing)), check=asked.append)
        assert (made.added, len(asked)) == (added, 1)


def test_signatures_below_an_earlier_head_are_not_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    check_signature = work.check_signature
    monkeypatch.setattr(
        work, "check_signature", lambda key, message, sig: seen.append(message) or check_signature(key, message, sig)
    )
    ledger = two_roots()
    head = ledger.head()
    note(ledger)
    note(ledger)
    for older, new in ((None, len(ledger.lines)), (head, 2)):
        seen.clear()
        assert sign(tmp_path, ledger, older).added
        assert len(seen) == new


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_checked_is_checked_again_only_if_less_is_covered(lost: bool, tmp_path: Path) -> None:
    """A witness may cosign an earlier head meanwhile, again and again."""
    ledger = two_roots()
    path = tmp_path / "checkpoint"
    path.write_bytes(ledger.head())
    note(ledger)
    (tmp_path / "ledger.jsonl").write_bytes(ledger.data)
    opened, asked = Ledger.open(tmp_path), []

    def check(candidate: Any) -> None:
        asked.append(candidate.covered)
        if lost:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(path.read_bytes() + "\u2014 w.example/1 ".encode() + b64encode(bytes(76)) + b"\n")

    made = make_checkpoint(opened, Signer(bytes(LOG.signing)), check=check)
    assert made.added
    size = len(ledger.lines) - 1
    assert asked == ([size, 0] if lost else [size])


def test_the_command_asks(run, ledger, tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(signable, "check_signable", lambda log, candidate: asked.append((log.name, candidate.covered)))
    asked: list[tuple[str, int]] = []
    assert run("checkpoint", "--ledger", "ledger", "--key", "log.pem").code == 0
    assert asked == [("ledger.jsonl", 0)]
