"""The checks that attacks run into, by name, and how each is switched off.

Switching a check off replaces the very function that the verifier calls by one that finds nothing. What an attack
comes to then shows that it was this check that caught it, and which check stands behind.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import importlib
import json
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from k3_ledger.ledger.core.framing import HEAD, TAIL_LEN, Line
from k3_ledger.ledger.core.note import VerifiedSignature
from k3_ledger.ledger.core.proof import ProofEntry, ProofFile
from k3_ledger.ledger.core.rootactions import rest
from k3_ledger.ledger.core.tiles import parse_entries, parse_hashes
from k3_ledger.rescore.claims.status import Part, Status
from k3_ledger.rescore.judgements import check_verdicts
from k3_ledger.rescore.native import read_parity
from k3_ledger.schemas.decode import decode
from k3_ledger.schemas.outcomes import Outcome as StepOutcome
from k3_ledger.verify.heads import Heads
from k3_ledger.verify.polaris.hashes import Record, _forms
from k3_ledger.verify.proof import _check_signatures
from k3_ledger.verify.tee.certificates import Anchors, platform_extension, read_chain
from k3_ledger.verify.tee.pck import SGX_EXTENSION, parse_platform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

Switch = tuple[str, Any]
"""Where a function is looked up, and what takes its place."""


def _nothing(*_: object, **__: object) -> tuple[()]:
    return ()


def _none(*_: object, **__: object) -> None:
    return None


def _derived_for_nothing(*given: Any, **more: Any) -> list[None]:
    """Verdicts that are read, with all that pins rest on, and believed."""
    return [None for _ in check_verdicts(*given, **more)]


def _derived_once(*_: object) -> Any:
    """Verdicts that do not follow from what counts today are false, and are not derived once more."""
    return SimpleNamespace(derive=lambda wrong, _resting: iter(wrong.values()))


def _believed(_text: str, sig: Any, verifiers: Any, *_: object) -> VerifiedSignature:
    """A signature line that nobody looked at; where a time should stand, one is read all the same."""
    return VerifiedSignature(verifiers[0], sig, int.from_bytes(sig.signature[:8], "big"))


def _unread(_source: object, _remembered: object, _findings: object) -> Heads:
    return Heads((), {}, 0)


def _all_of(cosigned: Any, quorum: int) -> tuple[Any, ...]:
    """As if one operator counted as often as is needed."""
    return (tuple(cosigned) * quorum)[:quorum]


def _same(_scan: object, witnesses: Any) -> Any:
    return tuple(witnesses)


def _never(_: object) -> bool:
    return False


def _parity(body: Any) -> Any:
    """What a receipt says of parity; what is no number says nothing."""
    with contextlib.suppress(ValueError):
        return read_parity(body)
    return None


def _always(*_: object) -> bool:
    return True


def _of_known_signers(scan: Any, name: str, entries: Any) -> None:
    """Whoever signs and is enrolled nowhere is taken for somebody who is."""
    bodies = [read[0].body for read in entries.values()]
    roots = {hashlib.sha256(bytes.fromhex(body.root_public_key)).hexdigest() for body in bodies[:1]}
    known = roots | {getattr(body, "key_id", "") for body in bodies}
    _check_signatures(scan, name, {index: read for index, read in entries.items() if read[0].key in known})


def _under_own_root(run: Any) -> None:
    """Whatever root a quote's certificates lead to is one that the reader trusts."""
    run._chain = read_chain(run._signature.chain)
    run._root = run._chain[-1]
    run.anchors = Anchors((run._root,), run.anchors.signers)
    run.platform = parse_platform(platform_extension(run._chain[0], SGX_EXTENSION))


def _all_published(run: Any) -> Iterator[Any]:
    """Whatever record was sealed is the published result."""
    return (replace(form, record=Record.RESULT) for form in _forms(run))


def _vouched(*_: object) -> tuple[None, str, bool]:
    """Whatever an entry keeps is a cosignature by a witness of the reader's."""
    return None, "", True


def _everybody() -> Any:
    return defaultdict(lambda: frozenset({"root", "log", "runner", "judge", "witness"}))


def _as_named(_source: object, digest: str, size: int) -> tuple[str, int]:
    return digest, size


def _up_to_date(ring: Any, *given: Any) -> Any:
    return ring._seen[given[-1]]


def _at_rest(raw: bytes, genesis: int, actions: list[Any]) -> Any:
    """An action that undoes what it rests on is passed over, and nothing said."""
    return rest(raw, genesis, actions) or rest(raw, genesis, actions[:-1])


def _proof(data: bytes, **_: object) -> ProofFile:
    """A proof file read without a second look."""
    value = json.loads(data)
    entries = tuple(
        ProofEntry(each["index"], each["line"].encode(), tuple(bytes.fromhex(h) for h in each["inclusion"]))
        for each in value["entries"]
    )
    return ProofFile(value["subject"], entries, value["checkpoint"].encode())


def _indexed(data: bytes, place: Any) -> Any:
    """An entry whose own index is whatever the proof file says it is."""
    return msgspec.structs.replace(decode(data, place), index=place.index)


def _read_blindly(source: Any, marks: Any) -> Iterator[tuple[Any, bytes]]:
    """Whatever is there, as if it were one chunk."""
    mark = next(iter(marks))
    yield mark, b"".join(source.blocks())


def _hashes(tile: Any, data: bytes, **_: object) -> list[bytes]:
    return parse_hashes(data, tile.width)


def _entries(tile: Any, data: bytes, **_: object) -> list[bytes]:
    return parse_entries(data, tile.width)


def _open(path: Any, **_: object) -> Any:
    return path.open("rb", buffering=0)


def _cached(cache: Any, sha256: str) -> Any:
    path = cache._blob(sha256)
    return path.open("rb") if path.exists() else None


def _supported(*_: object) -> tuple[Part, ...]:
    return (Part("value", Status.SUPPORTED, "it says so"),)


class _Everybody:
    """Equal to everything."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__


class _Everything(frozenset[str]):
    """Holds every text."""

    def __contains__(self, item: object) -> bool:
        return True


class _Anything(str):
    """Equal to every text."""

    __slots__ = ()

    def __new__(cls, *_: object) -> _Anything:  # noqa: PYI034
        return super().__new__(cls)

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def _leaf(line: bytes) -> bytes:
    return hashlib.sha256(line).digest()


def _line(raw: bytes) -> Any:
    """A line cut where its frame should be, whatever stands there."""
    try:
        return raw[len(HEAD) : -TAIL_LEN], base64.b64decode(raw[-90:-2])
    except ValueError:
        return raw[len(HEAD) : -TAIL_LEN], bytes(64)


def _parsed(raw: bytes, *_: object) -> Line:
    return Line(*_line(raw), raw)


def _read(_worker: object, _raw: bytes, data: bytes, _where: object) -> Any:
    """An entry as a reader sees it that takes whatever its JSON library takes."""
    try:
        value = json.loads(data)
        return SimpleNamespace(**value | {"body": SimpleNamespace(**value["body"])})
    except ValueError:
        return None


VERIFY: Final = "k3_ledger.verify"
CORE: Final = "k3_ledger.ledger.core"

CHECKS: Final[dict[str, tuple[Switch, ...]]] = {
    # framing and encoding
    "core.framing.split_line": (
        (f"{VERIFY}.work.split_line", _line),
        (f"{VERIFY}.scan.parse_line", _parsed),
        (f"{VERIFY}.references.parse_line", _parsed),
        (f"{VERIFY}.log.parse_line", _parsed),
    ),
    "core.framing.check_not_glued": ((f"{VERIFY}.work.check_not_glued", _none),),
    "core.lines.check_tail": ((f"{VERIFY}.log.check_tail", _none),),
    "schemas.structs._Known.texts_match": (
        ("k3_ledger.schemas.structs._Known.texts_match", _always),
        (f"{VERIFY}.receipts._check_parity", _nothing),  # this and the next read what stands there as numbers
        ("k3_ledger.rescore.replay.read_parity", _parity),
    ),
    "schemas.decode": ((f"{VERIFY}.work._Worker._read_slowly", _read),),
    # chain
    "verify.work.check_genesis": (
        (f"{VERIFY}.work.check_genesis", _nothing),
        (f"{VERIFY}.proof.check_genesis", _nothing),
    ),
    "verify.work.link_faults": (
        (f"{VERIFY}.work.follows", lambda *_: True),
        (f"{VERIFY}.work.link_faults", _nothing),
        (f"{VERIFY}.scan.link_faults", _nothing),
    ),
    "verify.proof._check_signatures": ((f"{VERIFY}.proof._check_signatures", _of_known_signers),),
    "verify.proof._check_links": ((f"{VERIFY}.proof._check_links", _none),),
    # signatures and keys
    "core.ed25519.check_signature": (
        (f"{VERIFY}.work.check_signature", _none),
        (f"{VERIFY}.proof.check_signature", _none),
    ),
    "core.keyring.Keyring.check_use": ((f"{CORE}.keyring.Keyring.check_use", _nothing),),
    "schemas.envelope.SIGNING_ROLES": ((f"{CORE}.keyring.SIGNING_ROLES", _everybody()),),
    "core.keyring.Keyring._faults": ((f"{CORE}.keyring.Keyring._faults", _nothing),),
    "core.keylife.KeyLife.last": ((f"{CORE}.keylife.KeyLife.last", property(lambda life: life.retired)),),
    "core.keyring.Keyring.roots_after": ((f"{CORE}.keyring.Keyring.roots_after", lambda *_: 99),),
    "core.keyring.Keyring._threshold_faults": ((f"{CORE}.keyring.Keyring._threshold_faults", _nothing),),
    "core.keyring.Keyring.threshold": (
        (f"{CORE}.keyring.Keyring.threshold", property(lambda _: 1, _none)),
        (f"{CORE}.rootactions.State.threshold", property(lambda _: 1)),
    ),
    "core.keyring.Keyring._endorsers": ((f"{CORE}.keyring.Keyring._endorsers", _nothing),),
    "core.keyring.Keyring._made_after": ((f"{CORE}.keyring.Keyring._made_after", _up_to_date),),
    "core.rootactions.rest": ((f"{CORE}.keyring.rest", _at_rest),),
    "core.keyring._weakness": ((f"{CORE}.keyring._weakness", _nothing),),
    "verify.settle._check_opened_by": ((f"{VERIFY}.settle._check_opened_by", _none),),
    "verify.settle._check_origin": ((f"{VERIFY}.settle._check_origin", _none),),
    # heads
    "verify.heads._root_faults": ((f"{VERIFY}.heads._root_faults", _nothing),),
    "verify.head_faults._signature_fault": ((f"{VERIFY}.head_faults._signature_fault", _none),),
    "verify.head_faults.head_faults": (
        (f"{VERIFY}.heads.head_faults", _nothing),
        (f"{VERIFY}.head_faults.head_faults", _nothing),
    ),
    "verify.coverage.check_size": ((f"{VERIFY}.coverage.check_size", _none), (f"{VERIFY}.proof.check_size", _none)),
    "verify.heads.read_heads": ((f"{VERIFY}.log.read_heads", _unread),),
    "verify.head_faults.foreign_head": (
        (f"{VERIFY}.head_faults.foreign_head", _none),
        (f"{VERIFY}.proof.foreign_head", _none),
    ),
    "verify.head_faults.taken_back": (
        (f"{VERIFY}.heads.taken_back", _none),
        (f"{VERIFY}.head_faults.taken_back", _none),
    ),
    "verify.heads.check_freshness": ((f"{VERIFY}.heads.check_freshness", _none),),
    "cli.memory._held_now": (("k3_ledger.cli.memory._held_now", lambda _: _Everybody()),),
    "core.consistency.check_heads": ((f"{CORE}.consistency.check_heads", _none),),
    "verify.coverage.report_behind": ((f"{VERIFY}.heads.report_behind", _none),),
    "core.checkpoint.format_again": ((f"{CORE}.checkpoint.format_checkpoint", _Anything),),
    "verify.settle.check_demands": ((f"{VERIFY}.log.check_demands", _none), (f"{VERIFY}.proof.check_demands", _none)),
    "verify.several._unmet": ((f"{VERIFY}.several._unmet", _nothing),),
    "verify.policy.TrustPolicy._check_witnesses": ((f"{VERIFY}.policy.TrustPolicy._check_witnesses", _none),),
    # witnesses
    "core.note.check_by_one_of": ((f"{CORE}.cosignature.check_by_one_of", _believed),),
    "core.cosignature.quorum_of": ((f"{VERIFY}.witnesses.quorum_of", _all_of),),
    "verify.witnesses._check_quorum": ((f"{VERIFY}.witnesses._check_quorum", _none),),
    "verify.witnesses._report_unwitnessed": ((f"{VERIFY}.witnesses._report_unwitnessed", _none),),
    "verify.witnesses._independent": ((f"{VERIFY}.witnesses._independent", _same),),
    "verify.witness_entries._judge": ((f"{VERIFY}.witness_entries._judge", _vouched),),
    "verify.polaris.quotes._is_quoted": (
        (f"{VERIFY}.polaris.quotes._is_quoted", _never),
        (f"{VERIFY}.polaris.originals.check_originals", _none),  # which reads the same off the original
    ),
    # proofs and trees
    "core.proof.check_inclusions": ((f"{VERIFY}.proof.check_inclusions", _none),),
    "core.proof.parse_proof": ((f"{VERIFY}.proof.parse_proof", _proof),),
    "verify.proof._read.index": ((f"{VERIFY}.proof.decode", _indexed),),
    "verify.proof.check_memory": ((f"{VERIFY}.proof.check_memory", _none),),
    "core.chain.LEAF_PREFIX": ((f"{CORE}.chain.LEAF_PREFIX", b""),),
    "core.merkle.NODE_PREFIX": ((f"{CORE}.merkle.NODE_PREFIX", b"\0"),),
    "core.merkle.check_consistency": ((f"{CORE}.merkle.check_consistency", _none),),
    # artifacts, receipts, references
    "verify.artifacts._hash": ((f"{VERIFY}.artifacts._hash", _as_named),),
    "verify.receipts.check_bundle": ((f"{VERIFY}.receipts.check_bundle", _nothing),),
    "verify.receipts.check_artifact_names": ((f"{VERIFY}.receipts.check_artifact_names", _nothing),),
    "verify.receipts.check_import": ((f"{VERIFY}.receipts.check_import", _nothing),),
    "verify.receipts.check_run": ((f"{VERIFY}.receipts.check_run", _nothing),),
    "verify.references.check_references": ((f"{VERIFY}.log.check_references", _none),),
    "cli.tokens._check": (("k3_ledger.cli.tokens._check", _none),),
    "cli.token_chain.check_way": (("k3_ledger.cli.token_chain.check_way", _none),),
    # quotes
    "verify.tee.check._Run._binding": ((f"{VERIFY}.tee.check._Run._binding", _none),),
    "verify.tee.check._Run._certificates": ((f"{VERIFY}.tee.check._Run._certificates", _under_own_root),),
    "verify.tee.check._Run._measurements": ((f"{VERIFY}.tee.check._Run._measurements", lambda *_: "none"),),
    "verify.polaris.originals.check_originals": ((f"{VERIFY}.polaris.originals.check_originals", _none),),
    "verify.polaris.quotes._hides": ((f"{VERIFY}.polaris.quotes._hides", lambda *_: ""),),
    "verify.tee.receipts._check_quote": ((f"{VERIFY}.tee.receipts._check_quote", lambda *_: StepOutcome.NOT_CHECKED),),
    "verify.tee.check.faults_within": ((f"{VERIFY}.tee.receipts.faults_of_quote", _nothing),),
    "verify.tee.claims.refusals": ((f"{VERIFY}.tee.tokens.refusals", _nothing),),
    # witnesses' own
    "ledger.witness.state.WitnessState.drop_keys": (("k3_ledger.ledger.witness.state.WitnessState.drop_keys", _none),),
    # claims
    "rescore.claims.document.complain": (("k3_ledger.rescore.claims.reading.complain", _none),),
    "rescore.claims.check._decide": (("k3_ledger.rescore.claims.check._decide", _supported),),
    # foreign logs
    "verify.polaris.facts.VERDICT": ((f"{VERIFY}.polaris.facts.VERDICT", frozenset()),),
    "verify.polaris.hashes._report_unbound": ((f"{VERIFY}.polaris.hashes._report_unbound", _nothing),),
    "verify.polaris.provenance._bars": ((f"{VERIFY}.polaris.provenance._bars", _nothing),),
    "verify.polaris.hashes._forms": ((f"{VERIFY}.polaris.hashes._forms", _all_published),),
    "verify.polaris.hashes._report_added": ((f"{VERIFY}.polaris.hashes._report_added", _nothing),),
    "verify.polaris.identity._scorers": ((f"{VERIFY}.polaris.identity._scorers", _nothing),),
    "verify.polaris.provenance._empty": ((f"{VERIFY}.polaris.provenance._empty", _nothing),),
    "verify.polaris.provenance._misfilled": ((f"{VERIFY}.polaris.provenance._misfilled", _nothing),),
    "verify.polaris.listing._membership": ((f"{VERIFY}.polaris.listing._membership", _nothing),),
    "verify.polaris.rounds._failures": ((f"{VERIFY}.polaris.rounds._failures", _nothing),),
    "verify.polaris.rounds._refused": ((f"{VERIFY}.polaris.rounds._refused", _nothing),),
    "verify.polaris.listing._edited": ((f"{VERIFY}.polaris.listing._edited", _nothing),),
    "verify.polaris.provenance._time": ((f"{VERIFY}.polaris.provenance._time", _nothing),),
    "verify.polaris.identity._common_prefix": ((f"{VERIFY}.polaris.identity._common_prefix", _nothing),),
    "verify.polaris.rounds.check_rounds": ((f"{VERIFY}.polaris.audit.check_rounds", _nothing),),
    "verify.polaris.provenance.check_clock": ((f"{VERIFY}.polaris.audit.check_clock", _nothing),),
    # places
    "verify.artifacts._check_sizes": ((f"{VERIFY}.artifacts._check_sizes", _none),),
    "verify.again.read_again": (
        (f"{VERIFY}.log.read_again", _read_blindly),
        (f"{VERIFY}.references.read_again", _read_blindly),
        ("k3_ledger.rescore.judgements.Otherwise", _derived_once),
    ),
    "verify.partial._count_missing": ((f"{VERIFY}.partial._count_missing", _none),),
    "core.lines.check_is_ledger": ((f"{VERIFY}.log.check_is_ledger", _none),),
    "core.tiletree._check_hashes": (
        (f"{CORE}.tiletree._check_hashes", _hashes),
        (f"{CORE}.tiletree._check_entries", _entries),
    ),
    "core.tiletree._check_entries": ((f"{CORE}.tiletree._check_entries", _entries),),
    "cli.sources.open_regular": (("k3_ledger.cli.sources.open_regular", _open),),
    "cli.opening.LOG_NAME": (("k3_ledger.cli.opening.LOG_NAME", "another name"),),
    "cli.packed._check_files": (("k3_ledger.cli.packed._check_files", _none),),
    "cli.cache.Cache.open_blob": (("k3_ledger.cli.cache.Cache.open_blob", _cached),),
    "verify.policy.known": ((f"{VERIFY}.policy._KEYS", _Everything()),),
    "verify.policy._typed": ((f"{VERIFY}.policy._typed", lambda table, key, *_: table.get(key)),),
    "verify.policy.TrustPolicy.__post_init__": ((f"{VERIFY}.policy.TrustPolicy.__post_init__", _none),),
    # judgements
    "rescore.judgements.check_verdicts": (("k3_ledger.rescore.judgements.check_verdicts", _derived_for_nothing),),
    "rescore.judgements._rests_on_what_was_taken_back": (
        ("k3_ledger.rescore.judgements._rests_on_what_was_taken_back", _none),
        ("k3_ledger.rescore.judgements.Otherwise", _derived_once),
    ),
    "rescore.judgements.check_rule_names": (("k3_ledger.rescore.judgements.check_rule_names", _nothing),),
    "rescore.judgements.check_supersessions": (("k3_ledger.rescore.judgements.check_supersessions", _nothing),),
    "rescore.judgements._misnamed": (("k3_ledger.rescore.judgements._misnamed", _none),),
    "rescore.pins.check_pin": (("k3_ledger.rescore.replay.check_pin", lambda value, **_: value),),
    "rescore.pins.stamp_finding": (
        ("k3_ledger.rescore.judgements.stamp_finding", _none),
        ("k3_ledger.rescore.reconcile.stamp_finding", _none),
    ),
    "rescore.native._clock": (("k3_ledger.rescore.native.combinations", _nothing),),
    "witness.state.WitnessState.log": (("k3_ledger.ledger.witness.state.stands_there", _never),),
    "rescore.judgements.trace_pins": (("k3_ledger.rescore.judgements.trace_pins", _nothing),),
}


@contextlib.contextmanager
def disabled(check: str, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run a block without one check."""
    with patch.context() as inside:
        for where, instead in CHECKS[check]:
            module, name = _owner(where)
            inside.setattr(module, name, instead)
        yield


def _owner(where: str) -> tuple[Any, str]:
    """The module or class in which a name is looked up. The name has to be there: a check that moved is no check."""
    path, _, name = where.rpartition(".")
    try:
        owner: Any = importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, cls = path.rpartition(".")
        owner = getattr(importlib.import_module(module), cls)
    original: Callable[..., object] = getattr(owner, name)
    assert original is not None
    return owner, name
