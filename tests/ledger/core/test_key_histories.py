"""Keys come and go at random, and the keyring says of every entry what the format says, read naively."""

from __future__ import annotations

import hashlib
import json
from array import array
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.ledger.core.keyring import Keyring
from k3_ledger.schemas.encode import encode
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Severity
from tests.ledgers import ORIGIN, ROOT, genesis_body
from tests.reference.key_histories import Draft, Teller

if TYPE_CHECKING:
    from tests.reference.naive_keys import History

NEVER = {Code.KEY_UNKNOWN, Code.KEY_NOT_YET, Code.KEY_RETIRED}
HISTORIES = 250
"""How many are told; each has about a dozen entries."""


class Told:
    """One history as the keyring and the model took it."""

    def __init__(self, seed: int, length: int) -> None:
        teller = Teller(seed, ORIGIN)
        self.model, self.ring = teller.model, Keyring()
        self.story: list[str] = []
        self.prev = "0" * 64
        body = genesis_body()
        self.ring.apply_genesis(0, self.entry(Draft("genesis", body, ROOT), 0)[0], self.typed.body)
        self.model.entries[0] = self.taken
        self.ring.used(ROOT.id, "genesis", array("Q", [0]))
        for draft in teller.drafts(length):
            self.take(draft)

    def entry(self, draft: Draft, index: int) -> tuple[str, dict[str, Any]]:
        """Its identity; ``typed`` and ``taken`` are the entry as the product and as the model know it."""
        data, self.typed = encode(
            draft.kind, draft.body, index=index, key=draft.signer.id, prev=self.prev, time="2026-01-01T00:00:00Z"
        )
        self.taken = json.loads(data)
        self.prev = hashlib.sha256(data).hexdigest()
        return self.prev, self.taken

    def take(self, draft: Draft) -> None:
        at = len(self.model.entries)
        identity, taken = self.entry(draft, at)
        could_sign = self.model.now.counts(draft.signer.id, at)
        self.ring.used(draft.signer.id, draft.kind, array("Q", [at]))
        self.story.append(f"{at}: {draft.signer.seed}: {draft.kind} {draft.body}")
        counts = self.model.take(taken)
        if draft.kind == "note":
            return
        found = self.ring.apply_action(at, identity, draft.kind, draft.signer.id, self.typed.body)
        refused = any(finding.severity is Severity.ERROR for finding in found)
        assert counts == (not refused and could_sign), (self.story, found)


def held_against(model: History, ring: Keyring) -> tuple[dict[str, Any], dict[str, Any]]:
    """What both say of every entry and of every key."""
    verdicts = [model.verdict(at) for at in range(len(model.entries))]
    never: dict[tuple[str, str], list[int]] = {}
    for at, verdict in enumerate(verdicts):
        if verdict == "error":
            never.setdefault((model.entries[at]["key"], model.entries[at]["kind"]), []).append(at)
    now = model.now
    end = len(model.entries)
    said = {
        "taken back": {at for at, verdict in enumerate(verdicts) if verdict == "taken back"},
        "never counted": sorted(places for places in never.values()),
        "counting": {key for key in now.enrolled if now.counts(key, end)},
        "places": {key: [at for at in range(end) if now.counts(key, at)] for key in now.enrolled},
        "roots": len(now.roots(end)),
        "threshold": now.threshold,
    }
    found = [(finding, more) for finding, more in ring.check_use() if finding.code in NEVER]
    seen = {
        "taken back": set(ring.disowned()),
        "never counted": found,
        "counting": {key for key, life in ring.lives.items() if life.valid_at(end)},
        "places": {
            key: [at for at in range(end) if life.enrolled < at <= life.last] for key, life in ring.lives.items()
        },
        "roots": ring.roots_after(end - 1),
        "threshold": ring.threshold,
    }
    return said, seen


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_keyring_says_what_the_format_says(seed: int) -> None:
    told = Told(seed, 6 + seed % 12)
    said, seen = held_against(told.model, told.ring)
    # Of every key and kind the product names the first entry that never counted, and how many follow.
    found = seen.pop("never counted")
    never = said.pop("never counted")
    assert sum(more + 1 for _, more in found) == sum(map(len, never)), told.story
    assert {finding.position.index for finding, _ in found} >= {places[0] for places in never}, told.story
    assert said == seen, told.story
    ranges = [at for taken in told.ring.disowned_ranges() for at in range(taken.first, taken.last + 1)]
    assert set(ranges) == said["taken back"]
