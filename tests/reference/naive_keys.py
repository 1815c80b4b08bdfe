"""Which entries count, by docs/format.md sections 6 and 7 and by going through everything again each time.

Says of every entry whether its signer's word counts, was taken back, or never counted. Everything is plain JSON; it
imports no room of the project, and is as slow as it looks. Kinds and roles other than root actions are not judged.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

ACTIONS = ("key", "threshold")


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass
class State:
    """What one going-through found: keys, the threshold, which actions count, and what they disown."""

    role: dict[str, str] = field(default_factory=dict)
    enrolled: dict[str, int] = field(default_factory=dict)
    retired: dict[str, int] = field(default_factory=dict)
    disowned: dict[str, int] = field(default_factory=dict)
    threshold: int = 1
    counting: list[int] = field(default_factory=list)

    def counts(self, key: str, position: int) -> bool:
        """Whether the key's word counts at a position: behind its enrolment, not behind its end, not disowned."""
        return bool(
            key in self.enrolled
            and self.enrolled[key] < position <= self.retired.get(key, position)
            and position < self.disowned.get(key, position + 1)
        )

    def roots(self, position: int) -> list[str]:
        """The root keys that can stand behind an action here."""
        return [key for key, role in self.role.items() if role == "root" and self.counts(key, position)]


class History:
    """A log as far as its keys go: entries are taken one by one, each is a decoded JSON object."""

    def __init__(self, genesis: dict[str, Any]) -> None:
        self.entries = [genesis]
        self.origin = genesis["body"]["origin"]
        self.good: list[dict[str, Any]] = []
        root = genesis["key"]
        first = State({root: "root"}, {root: -1})
        self.states: list[tuple[int, State]] = [(0, first)]
        """After which entry each state of the keys begins."""
        self.reaching_back = 0

    @property
    def now(self) -> State:
        return self.states[-1][1]

    def newest_action(self) -> str:
        """Identity of the newest genesis, key or threshold entry, whether or not it counts."""
        newest = [entry for entry in self.entries if entry["kind"] in ("genesis", *ACTIONS)][-1]
        return hashlib.sha256(canonical(newest)).hexdigest()

    def take(self, entry: dict[str, Any]) -> bool:
        """Take one more entry; for a root action, whether it counts."""
        state = self.outcome(entry)
        self.reaching_back += self.reaches_back(entry)
        if state is not None:
            self.good.append(entry)
            self.states.append((entry["index"], state))
        self.entries.append(entry)
        return state is not None

    def outcome(self, entry: dict[str, Any]) -> State | None:
        """The state of the keys behind an entry that comes next, None where it is no root action that counts."""
        if entry["kind"] not in ACTIONS or not self.is_sound(entry):
            return None
        if self.reaching_back >= 32 and self.reaches_back(entry):
            return None
        return self.go_through([*self.good, entry])

    def reaches_back(self, entry: dict[str, Any]) -> bool:
        """Whether it says of a root key that it counted for nothing from an earlier position on."""
        at, body = entry["index"], entry["body"]
        if entry["kind"] != "key" or body["action"] != "revoke" or body["role"] != "root":
            return False
        return bool(body["revoked_from"] not in (None, at) and entry["key"] in self.now.roots(at))

    def is_sound(self, entry: dict[str, Any]) -> bool:
        """Whether an action could count as the keys are now."""
        at, now, body, kind = entry["index"], self.now, entry["body"], entry["kind"]
        behind = [entry["key"], *(endorsement["key"] for endorsement in body["endorsements"])]
        if not all(key in now.roots(at) for key in behind) or len(set(behind)) < len(behind):
            return False
        plain = {name: value for name, value in body.items() if name != "endorsements"}
        said = canonical({"after": self.newest_action(), "body": plain, "kind": kind, "origin": self.origin})
        for endorsement in body["endorsements"]:
            if not self.is_signed(endorsement, b"k3-ledger/endorsement/v1\n" + said):
                return False
        if len(behind) < now.threshold:
            return False
        if kind == "threshold":
            return 1 <= body["threshold"] <= len(now.roots(at + 1))
        named = hashlib.sha256(bytes.fromhex(body["public_key"])).hexdigest() == body["key_id"]
        return bool(named) and (self.is_revocation(entry) if body["action"] == "revoke" else self.brings_in(entry))

    def is_revocation(self, entry: dict[str, Any]) -> bool:
        """Whether it names a key that is enrolled, its role, and a position that it can."""
        at, now, body, key = entry["index"], self.now, entry["body"], entry["body"]["key_id"]
        since = at if body["revoked_from"] is None else body["revoked_from"]
        sound = now.role.get(key) == body["role"] and key in now.enrolled and body["replaces"] is None
        return bool(sound) and since <= at and (key != entry["key"] or since == at)

    def brings_in(self, entry: dict[str, Any]) -> bool:
        """Whether it names a key that none enrolled before, and for a rotation one of its role that counts."""
        now, body = self.now, entry["body"]
        key, old = body["key_id"], body["replaces"]
        known = any(other["kind"] == "key" and other["body"]["key_id"] == key for other in self.good)
        if known or key == self.entries[0]["key"] or body["revoked_from"] is not None:
            return False
        if body["action"] == "enrol":
            return old is None
        return now.role.get(old) == body["role"] and now.counts(old, entry["index"])

    def is_signed(self, endorsement: dict[str, str], statement: bytes) -> bool:
        keys = [self.entries[0]["body"]["root_public_key"]]
        keys += [entry["body"]["public_key"] for entry in self.good if entry["kind"] == "key"]
        raw = next(key for key in keys if hashlib.sha256(bytes.fromhex(key)).hexdigest() == endorsement["key"])
        try:
            VerifyKey(bytes.fromhex(raw)).verify(statement, base64.b64decode(endorsement["sig"]))
        except BadSignatureError:
            return False
        return True

    def go_through(self, actions: list[dict[str, Any]]) -> State | None:
        """Begin with nothing disowned, and begin again with what was noted, until the same is noted."""
        disowned: dict[str, int] = {}
        for _ in range(len(actions) + 2):
            state, noted = State({self.entries[0]["key"]: "root"}, {self.entries[0]["key"]: -1}), dict[str, int]()
            for entry in actions:
                at, body = entry["index"], entry["body"]
                behind = [entry["key"], *(endorsement["key"] for endorsement in body["endorsements"])]
                standing = [key for key in behind if key in state.roots(at) and at < disowned.get(key, at + 1)]
                if entry["key"] not in standing or len(standing) < state.threshold:
                    continue
                state.counting.append(at)
                if entry["kind"] == "threshold":
                    state.threshold = body["threshold"]
                    continue
                key, old = body["key_id"], body["replaces"]
                if body["action"] != "revoke":
                    state.role[key], state.enrolled[key] = body["role"], at
                    if old in state.enrolled:
                        state.retired[old] = min(at, state.retired.get(old, at))
                elif key in state.enrolled:
                    state.retired[key] = min(at, state.retired.get(key, at))
                    since = body["revoked_from"]
                    if since is not None and since < at:
                        noted[key] = min(since, noted.get(key, since))
            if noted == disowned:
                state.disowned = noted
                return state if state.counting[-1:] == [actions[-1]["index"]] else None
            disowned = noted
        return None

    def verdict(self, position: int) -> str:
        """Of an entry: ``counts``, ``taken back`` where its signer's word once did, or ``error``."""
        key = self.entries[position]["key"]
        if self.now.counts(key, position):
            return "counts"
        ends = [begins for begins, _ in self.states[1:]] + [len(self.entries)]
        once = [state for (_, state), end in zip(self.states, ends, strict=True) if position <= end]
        return "taken back" if any(state.counts(key, position) for state in once) else "error"
