"""Key lifetimes by log position: which key could sign what, and where in the log.

A key enrolled at position p counts for positions p+1 and later, up to the position that retires it. A revocation may
name an earlier position (compromise): what the key signed from there on is disowned, what came before stands.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from k3_ledger.ledger.core import strict_base64
from k3_ledger.ledger.core.ed25519 import check_public_key, check_signature
from k3_ledger.ledger.core.endorsement import format_statement, plain_body
from k3_ledger.ledger.core.keylife import FOREVER, Disowned, KeyLife
from k3_ledger.ledger.core.rootactions import MAX_REACHING_BACK, Action, State, reaches_back, rest, step
from k3_ledger.schemas.envelope import SIGNING_ROLES
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.schemas.outcomes import Position, Severity

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

EARLIER_STATES = 64
"""Earlier states of the keys that a refused endorsement is tried against, to say that it is stale."""
EARLIER_TRIES = 4_096
"""How often that is tried in one log: who makes a log of refused endorsements must not keep its readers busy."""


@dataclass(slots=True)
class Keyring:
    """Keys met in a log and the positions at which they were used.

    ``apply_genesis`` and ``apply_action`` are called for entries whose signature verified, in log order; ``used`` for
    every entry whose signature verified; ``check_use`` once, at the end.

    A root action counts when as many root keys stand behind it as the threshold asks for: its signer, and each
    endorser once. A compromise revocation takes back what the key signed or endorsed from a position on, root actions
    included: keys that a thief enrolled were never enrolled, keys that he retired live on, a threshold that he lowered
    stands. So the actions are gone through again after each that names a root key; a log has few of those, and all else
    costs the same however many keys there are.

    What a key signed while it counted, in any of these states, is never held against it: where it counts no more, it
    was taken back. Only what never counted is an error, so no root action that counts makes a good log a bad one.

    Attributes:
        lives: keys that count, or counted once, by key id.
        taken_back: keys whose enrolment was taken back.
        uses: positions by (key id, kind).
        endorsements: how many good endorsements the actions carried.
        threshold: root keys that have to stand behind the next root action.
    """

    lives: dict[str, KeyLife] = field(default_factory=dict)
    taken_back: dict[str, KeyLife] = field(default_factory=dict)
    uses: dict[tuple[str, str], array[int]] = field(default_factory=dict)
    endorsements: int = 0
    threshold: int = 1
    _origin: str = ""
    _genesis: tuple[bytes, int] | None = None
    _seen: list[str] = field(default_factory=list)
    _tries: int = 0
    _actions: list[Action] = field(default_factory=list)
    _reached_back: int = 0

    @property
    def newest_action(self) -> str:
        """Identity of the newest genesis, key or threshold entry: what the next endorsement has to name."""
        return self._seen[-1]

    @property
    def acted(self) -> set[str]:
        """Key ids of the root keys that stood behind genesis or a root action that counted: somebody holds them."""
        assert self._genesis is not None, "the first root key is genesis'"
        acted = {key for action in self._actions for key in (action.signer, *action.endorsers)}
        return acted | {sha256(self._genesis[0]).hexdigest()}

    def roots_after(self, position: int, lives: dict[str, KeyLife] | None = None) -> int:
        """How many root keys can stand behind an action right behind ``position``, of all keys or of ``lives``."""
        known = self.lives if lives is None else lives
        return sum(life.role == "root" and life.valid_at(position + 1) for life in known.values())

    def apply_genesis(self, position: int, identity: str, body: Any) -> list[Finding]:
        """Pin the root key that genesis names. Genesis itself is signed by it."""
        raw = bytes.fromhex(body.root_public_key)
        self._genesis, self._origin = (raw, position), body.origin
        self._seen.append(identity)
        root = KeyLife(raw, "root", enrolled=position - 1)
        self.lives = {sha256(raw).hexdigest(): root}
        return list(_weakness(raw, position, "body.root_public_key"))

    def apply_action(self, position: int, identity: str, kind: str, signer: str, body: Any) -> list[Finding]:
        """Take one ``key`` or ``threshold`` entry into account, unless it cannot count; then say why.

        Whatever is returned with severity error kept it from counting.
        """
        self._seen.append(identity)
        life = self.lives.get(signer)
        if life is None or life.role != "root" or not life.valid_at(position):
            return []  # reported by check_use: this key could not sign a root action here
        found: list[Finding] = []
        endorsers = self._endorsers(position, kind, signer, body, found, present=-2)  # behind it stands the action
        action = Action(position, signer, kind, body, endorsers)
        state, found = self._judge(action, found)
        self._reached_back += reaches_back(action)
        if state is not None:
            for key, new in (*state.lives.items(), *state.taken_back.items()):
                new.succeed(self.lives.get(key) or self.taken_back.get(key), position)
            self._actions.append(action)
            if reaches_back(action):
                self.lives, self.taken_back, self.threshold = state
            else:  # those that changed
                self.lives.update(state.lives)
                self.threshold = state.threshold
            self.endorsements += len(endorsers)
        return found

    def check_possible(self, position: int, kind: str, body: Any) -> list[Finding]:
        """Why no root key could sign this action at ``position``, if all the others endorsed it; nothing is taken.

        Of several root keys, those findings that keep the action from counting least. A root key that the action
        retires is the last to be asked: another may do what it cannot do to itself.
        """
        roots = [key for key, life in self.lives.items() if life.role == "root" and life.valid_at(position)]
        roots.sort(key=lambda key: kind == "key" and key == body.key_id)
        tried: list[list[Finding]] = []
        for signer in roots:
            others = tuple(key for key in roots if key != signer)
            tried.append(self._judge(Action(position, signer, kind, body, others), [])[1])
        return min(tried, key=lambda found: sum(finding.severity is Severity.ERROR for finding in found), default=[])

    def check_endorsements(self, position: int, kind: str, body: Any) -> list[Finding]:
        """What is wrong with the endorsements of an action that nobody has signed yet; nothing is taken."""
        found: list[Finding] = []
        self._endorsers(position, kind, None, body, found, present=-1)
        return found

    def _judge(self, action: Action, found: list[Finding]) -> tuple[State | None, list[Finding]]:
        """What an action by a valid root comes to, None where it cannot count, and what there is to say about it.

        Of the lives, the state has those that the action changes, and all where it reaches back.

        Args:
            action: the action, newer than every other.
            found: what is wrong with its endorsements.
        """
        position, signer, kind, body, endorsers = action
        fault = self._faults if kind == "key" else self._threshold_faults
        found = [*fault(position, signer, body), *found]
        if len(endorsers) + 1 < self.threshold:
            found.append(_finding(
                Code.THRESHOLD_NOT_MET, position, "body.endorsements",
                f"{len(endorsers) + 1} root keys behind this action, and the threshold is {self.threshold}",
                expected=f"{self.threshold} root keys, the signer among them", found=str(len(endorsers) + 1),
            ))  # fmt: skip
        if found:
            return None, found
        assert self._genesis is not None, "no key is enrolled before genesis"
        if not reaches_back(action):
            threshold = body.threshold if kind == "threshold" else self.threshold
            state: State | None = State(step(self.lives, action), {}, threshold)
        elif self._reached_back >= MAX_REACHING_BACK:
            return None, [_finding(
                Code.REVOCATIONS_TOO_MANY, position, "body.revoked_from",
                f"{self._reached_back} revocations of root keys reach back already, and no more are gone into",
                expected=f"at most {MAX_REACHING_BACK}", found=f"from entry {body.revoked_from} on",
            )]  # fmt: skip
        else:
            state = rest(*self._genesis, [*self._actions, action])
        if state is None:
            return None, [_finding(
                Code.REVOCATION_CIRCULAR, position, "body.revoked_from",
                "what this revocation takes back is what it rests on, so it cannot count",
                expected="a signer and endorsers that are root keys whatever is taken back",
                found=f"all that key {body.key_id[:16]}… signed from entry {body.revoked_from} on is taken back",
                hint="have a root key sign it that was enrolled before, by another key than the one revoked; where "
                "there is none, leave --from out and revoke the keys that should not have been enrolled one by one",
            )]  # fmt: skip
        if kind != "key" or body.action != "revoke" or body.role != "root":
            return state, []  # the only kind of action that leaves fewer root keys than there were
        roots = self.roots_after(position, state.lives if reaches_back(action) else {**self.lives, **state.lives})
        if roots < state.threshold:
            left = "1 root key is left" if roots == 1 else f"{roots or 'no'} root keys are left"
            return state, [_finding(
                Code.ROOTS_TOO_FEW, position, "body",
                f"{left} and the threshold is {state.threshold}: no root action can follow",
                expected=f"at least {state.threshold}", found=str(roots),
            )]  # fmt: skip
        return state, []

    def _endorsers(
        self, position: int, kind: str, signer: str | None, body: Any, found: list[Finding], *, present: int
    ) -> tuple[str, ...]:
        """Root keys whose endorsement of an action counts; what is wrong with the others goes into ``found``.

        ``present`` is where the state of the keys that it acts on stands among those seen, counted from the end.
        """
        good: list[str] = []
        for at, endorsement in enumerate(body.endorsements):
            place, key = f"body.endorsements[{at}]", endorsement.key
            life = self.lives.get(key)
            if life is None or life.role != "root" or not life.valid_at(position):
                found.append(_finding(
                    Code.ENDORSER_UNKNOWN, position, f"{place}.key",
                    f"key {key[:16]}… endorses and is no root key that counts here",
                    expected="an enrolled root key that is not retired",
                    found="no enrolled key" if life is None else f"a {life.role} key, valid from entry "
                    f"{max(life.enrolled, 0)} to {'now' if life.retired == FOREVER else life.retired}",
                ))  # fmt: skip
                continue
            if key == signer or key in good:
                found.append(_finding(
                    Code.ENDORSEMENT_REPEATED, position, f"{place}.key",
                    f"key {key[:16]}… stands behind the action already, a key counts once",
                ))  # fmt: skip
                continue
            signature = strict_base64.decode(endorsement.sig.encode())
            after = self._made_after(kind, body, life.public_key, signature, present)
            if after == self._seen[present]:
                good.append(key)
            elif after is None:
                found.append(_finding(
                    Code.ENDORSEMENT_SIGNATURE, position, f"{place}.sig",
                    "the endorsement is not this key's signature over this action",
                ))  # fmt: skip
            else:
                found.append(_finding(
                    Code.ENDORSEMENT_STALE, position, f"{place}.sig",
                    "the endorsement was made for an earlier state of the keys: other root actions came in between",
                    expected=f"an endorsement after {self._seen[present]}", found=f"one after {after}",
                ))  # fmt: skip
        return tuple(good)

    def _made_after(self, kind: str, body: Any, public_key: bytes, signature: bytes, present: int) -> str | None:
        """The state of the keys for which an action was endorsed: the present one, an earlier one, or none known."""
        action = plain_body(kind, body)
        end = len(self._seen) + present + 1
        for after in reversed(self._seen[max(0, end - 1 - EARLIER_STATES) : end]):
            if after != self._seen[present]:
                if self._tries == EARLIER_TRIES:
                    break
                self._tries += 1
            try:
                check_signature(public_key, format_statement(self._origin, after, kind, action), signature)
            except LedgerError:
                continue
            return after
        return None

    def _threshold_faults(self, position: int, signer: str, body: Any) -> Iterator[Finding]:  # noqa: ARG002 - like _faults
        """Why a threshold entry by a valid root cannot count."""
        roots = self.roots_after(position)
        if body.threshold > roots:
            yield _finding(
                Code.THRESHOLD_IMPOSSIBLE, position, "body.threshold",
                "the threshold asks for more root keys than there are",
                expected=f"1 to {roots}", found=str(body.threshold),
            )  # fmt: skip

    def _faults(self, position: int, signer: str, body: Any) -> Iterator[Finding]:
        """Why a key entry by a valid root cannot count."""
        raw = bytes.fromhex(body.public_key)
        target = self.lives.get(body.key_id)
        if sha256(raw).hexdigest() != body.key_id:
            yield _finding(
                Code.KEY_ID_MISMATCH, position, "body.key_id", "key_id is not the SHA-256 of public_key",
                expected=sha256(raw).hexdigest(), found=body.key_id,
            )  # fmt: skip
        elif body.action == "revoke":
            if target is None:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.key_id", "a revocation names an enrolled key",
                    found=body.key_id,
                )  # fmt: skip
                return
            if body.role != target.role or body.replaces is not None:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.role",
                    "a revocation names the key's own role, and no other key",
                    expected=target.role, found=body.role,
                )  # fmt: skip
            itself = body.key_id == signer
            if body.revoked_from is not None and not (position if itself else 0) <= body.revoked_from <= position:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.revoked_from",
                    "a key that revokes itself from before this entry takes this entry back with the rest"
                    if itself and body.revoked_from < position
                    else "a revocation takes effect at its own position or before",
                    expected=str(position) if itself else f"0 to {position}", found=str(body.revoked_from),
                    hint="have another root key sign it, or leave --from out: what the key signed until now then stands"
                    if itself else None,
                )  # fmt: skip
        elif weakness := list(_weakness(raw, position, "body.public_key")):
            yield from weakness
        elif target is not None or body.key_id in self.taken_back:
            yield _finding(
                Code.KEY_ENROLLED_TWICE, position, "body.key_id", f"key {body.key_id[:16]}… was enrolled before"
            )
        elif body.revoked_from is not None or (body.action == "enrol") != (body.replaces is None):
            yield _finding(
                Code.KEY_UNKNOWN_TARGET, position, "body.replaces",
                "an enrolment replaces nothing, a rotation one key, and neither revokes", found=str(body.replaces),
            )  # fmt: skip
        elif body.action == "rotate":
            old = self.lives.get(body.replaces)
            if old is None or not old.valid_at(position) or old.role != body.role:
                yield _finding(
                    Code.KEY_UNKNOWN_TARGET, position, "body.replaces",
                    "a rotation names a valid key of the same role", found=str(body.replaces),
                )  # fmt: skip

    def used(self, key: str, kind: str, positions: array[int]) -> None:
        """Remember that ``key`` signed entries of ``kind`` at these positions."""
        known = self.uses.get((key, kind))
        if known is None:
            self.uses[key, kind] = positions
        else:
            known.extend(positions)

    def check_use(
        self, *, only_genesis: bool = False, settled: int = FOREVER, apart: int = 0, open_below: int = 0
    ) -> Iterator[tuple[Finding | None, int]]:
        """(finding, further ones like it) for every use that a lifetime or role does not allow.

        Args:
            only_genesis: look at genesis entries and nothing else: where none is good, no key was enrolled.
            settled: position up to which every root action was read. Behind it, that a key was never enrolled, or was
                retired, cannot be told: (None, n) stands for n such uses.
            apart: no finding of a use in front of this position stands for one behind it.
            open_below: what was signed in front of this position may have been taken back by a root action that was not
                read: of a role that forbids it, (None, n) stands for n such uses.
        """
        parts = ((use, part) for use, positions in self.uses.items() for part in _part(positions, apart))
        for (key, kind), positions in parts:
            if only_genesis and kind != "genesis":
                continue
            life = self.lives.get(key) or self.taken_back.get(key)
            if life is None:
                unknown = [p for p in positions if p <= settled]
                if unknown:
                    yield _first(Code.KEY_UNKNOWN, unknown, f"key {key[:16]}… was never enrolled", None, key)
                if len(unknown) < len(positions):
                    yield None, len(positions) - len(unknown)
                continue
            wrong = () if life.role in SIGNING_ROLES[kind] else [p for p in positions if life.lost_by(p) is None]
            if wrong and wrong[0] < open_below:
                yield None, sum(p < open_below for p in wrong)
                wrong = [p for p in wrong if p >= open_below]
            if wrong:
                yield _first(
                    Code.KEY_WRONG_ROLE, wrong, f"a {life.role} key signed an entry of kind {kind}",
                    " or ".join(sorted(SIGNING_ROLES[kind])), life.role,
                )  # fmt: skip
            early = [p for p in positions if p <= life.enrolled] if positions[0] <= life.enrolled else []
            if early:
                yield _first(
                    Code.KEY_NOT_YET, early, f"key {key[:16]}… signed before it was enrolled",
                    f"after entry {life.enrolled}", None,
                )  # fmt: skip
            beyond = [p for p in positions if p > life.last] if positions[-1] > life.last else []
            lost = [p for p in beyond if life.lost_by(p) is not None]
            late = [p for p in beyond if p > life.enrolled and life.lost_by(p) is None]
            if late and late[-1] > settled:
                yield None, sum(p > settled for p in late)
                late = [p for p in late if p <= settled]
            if late:
                yield _first(
                    Code.KEY_RETIRED, late, f"key {key[:16]}… signed after it was retired or its enrolment taken back",
                    f"before entry {min(life.retired, life.taken_back)}", None,
                )  # fmt: skip
            if lost:
                yield _first(
                    Code.KEY_DISOWNED, lost,
                    f"entry {life.lost_by(lost[0])} takes back what key {key[:16]}… signed from entry {lost[0]} on",
                    None, None,
                )  # fmt: skip

    def disowned(self) -> frozenset[int]:
        """Positions whose entries a compromise revocation took back."""
        return frozenset(position for position, _ in self._taken_back())

    def disowned_ranges(self) -> tuple[Disowned, ...]:
        """The same positions in log order, with the revocation that took each of them back."""
        ranges: list[Disowned] = []
        for position, by in sorted(self._taken_back()):
            if ranges and (ranges[-1].last, ranges[-1].by) == (position - 1, by):
                ranges[-1] = ranges[-1]._replace(last=position)
            else:
                ranges.append(Disowned(position, position, by))
        return tuple(ranges)

    def disowned_by(self, key: str, position: int) -> int | None:
        """Position of the revocation that took back what ``key`` signed at ``position``; None where none did."""
        life = self.lives.get(key) or self.taken_back.get(key)
        return None if life is None else life.lost_by(position)

    def counts(self, key: str, kind: str, position: int) -> bool:
        """Whether what ``key`` signed at ``position`` counts as the log says now, if it is of this kind."""
        life = self.lives.get(key)
        return life is not None and life.role in SIGNING_ROLES[kind] and life.enrolled < position <= life.last

    def _taken_back(self) -> Iterator[tuple[int, int]]:
        """(position, that of the revocation) of every use that was taken back."""
        for (key, _), positions in self.uses.items():
            life = self.lives.get(key) or self.taken_back.get(key)
            if life is not None and life.lost:  # few have, and there may be many uses
                yield from ((p, by) for p in positions if (by := life.lost_by(p)) is not None)


def _weakness(public_key: bytes, position: int, where: str) -> Iterator[Finding]:
    """Says so when a key is not a canonical point of the prime-order subgroup."""
    try:
        check_public_key(public_key)
    except LedgerError as error:
        yield _finding(Code.KEY_WEAK, position, where, error.finding.message, found=error.finding.found)


def _finding(
    code: Code, position: int, where: str, message: str, *,
    expected: str | None = None, found: str | None = None, hint: str | None = None,
) -> Finding:  # fmt: skip
    return Finding(code, message, Position(index=position, field=where), expected, found, hint)


def _part(positions: array[int], at: int) -> Iterator[array[int]]:
    """Ascending positions, those in front of ``at`` apart from the others; no part is empty."""
    cut = bisect_left(positions, at)
    yield from (part for part in (positions[:cut], positions[cut:]) if part) if cut else (positions,)


def _first(
    code: Code, positions: array[int] | list[int], message: str, expected: str | None, found: str | None
) -> tuple[Finding, int]:
    return Finding(code, message, Position(index=positions[0], field="key"), expected, found), len(positions) - 1
