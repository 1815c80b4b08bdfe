"""Random lives of a log's keys: several roots, thresholds, thieves, revocations that reach back and undo one another.

Most actions are ones that count by :mod:`tests.reference.naive_keys`, or nothing would ever happen; some are anything.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.ledgers import ROOT, Key, endorsement, genesis_body, key_body, threshold_body
from tests.reference.naive_keys import History

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIES = 12
"""Drawn at most to find an action that counts."""


@dataclass(frozen=True)
class Draft:
    """An entry-to-be: its body carries the endorsements."""

    kind: str
    body: dict[str, Any]
    signer: Key

    def entry(self, index: int) -> dict[str, Any]:
        """As it stands in the log; what no judgement of keys looks at is left out."""
        return {"index": index, "key": self.signer.id, "kind": self.kind, "body": self.body}


class Teller:
    """Draws one history. ``model`` is what it came to so far; whoever draws an entry calls ``model.take``."""

    def __init__(self, seed: int, origin: str, root: Key = ROOT) -> None:
        self.random = random.Random(seed)
        self.origin = origin
        self.roots, self.others = [root], list[Key]()
        self.made = 0
        self.model = History({"index": 0, "key": root.id, "kind": "genesis", "body": genesis_body(root, origin)})

    def drafts(self, length: int, *, wild: float = 0.1) -> Iterator[Draft]:
        """So many entries; the share ``wild`` of the root actions is not asked whether it counts."""
        for _ in range(length):
            if self.random.random() < 0.25:
                yield Draft("note", {"text": "a word", "artifacts": []}, self.random.choice(self.roots + self.others))
                continue
            sane = self.random.random() >= wild
            for _ in range(TRIES):
                draft, new = self.draw()
                if not sane or self.counts(draft):
                    break
            else:
                continue
            if new is not None:
                (self.roots if draft.body["role"] == "root" else self.others).append(new)
            yield draft

    def counts(self, draft: Draft) -> bool:
        """Whether the action would count next, by the model."""
        return self.model.outcome(draft.entry(len(self.model.entries))) is not None

    def draw(self) -> tuple[Draft, Key | None]:
        """Any root action, and the key that it brings in. The first bring in roots, or nothing is to undo."""
        draw, at = self.random, len(self.model.entries)
        signer, every = draw.choice(self.roots), self.roots + self.others
        kind, new, body = "key", None, dict[str, Any]()
        what = draw.random() if at > 3 else 0.0
        if what < 0.15:
            new = Key(f"key-{self.made}")
            body = key_body(new, "root" if at <= 3 else draw.choice(["root", "root", "runner"]))
        elif what < 0.25:
            old = draw.choice(every)
            new = Key(f"key-{self.made}")
            body = key_body(new, "root" if old in self.roots else "runner", "rotate", replaces=old.id)
        elif what < 0.45:
            kind, body = "threshold", threshold_body(draw.randint(1, 3))
        else:
            old = draw.choice(every)
            since = draw.choice([None, at, *range(at), *range(3, at), *range(3, at)])
            body = key_body(old, "root" if old in self.roots else "runner", "revoke", revoked_from=since)
        self.made += 1
        others = [key for key in self.roots if key is not signer]
        now = self.model.now.threshold - 1
        endorsers = draw.sample(others, min(len(others), draw.choice([0, now, now, now + 1])))
        return Draft(kind, self.endorsed(kind, body, *endorsers), signer), new

    def endorsed(self, kind: str, body: dict[str, Any], *keys: Key) -> dict[str, Any]:
        """The body with these keys' endorsements, for the state in which the model is."""
        after = self.model.newest_action()
        made = [endorsement(key, kind, body, after, origin=self.origin) for key in keys]
        return {**body, "endorsements": made}
