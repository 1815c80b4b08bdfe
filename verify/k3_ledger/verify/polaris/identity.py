"""What several runs share that should be each one's own, and what changes that should stay."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.findings import Code, Finding
from k3_ledger.verify.polaris.hashes import NONCE_COVERS
from k3_ledger.verify.polaris.spelling import plain, sha256_hex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from k3_ledger.verify.polaris.facts import RunFacts

OWN: Final = ("receipt_id", "tdx.quote_b64", "tdx.nonce")
"""Fields of a receipt that no two receipts may share, unless they follow from what two seals have in common."""
_SEALED: Final = ("tdx.nonce", "tdx.e2e_pubkey_b64", "tdx.bound_digest", "tdx.result_sha256", "tdx.files_sha256")
"""What the report data of a quote covers: two seals that have all of it in common are one."""
_DERIVED_FROM: Final = {
    "receipt_id": "which covers a constant and the sealed output alone",
    "tdx.nonce": "as a digest of one commit, model and seed is",
}
PAIR: Final = 2
"""Of so many results neither is most: the later one differs."""
VARYING: Final = frozenset(
    {
        "effective_pct",
        "guard",
        "guard_regression_labels",
        "kl_depths",
        "note",
        "pct_of_ceiling",
        "pct_of_llama",
        "polaris",
        "polaris_receipt_id",
        "reason",
        "receipt_id",
    }
)
"""Fields whose presence depends on the run's outcome or came after it, not on the scorer's version."""


def check_identity(facts: list[RunFacts]) -> Iterator[Finding]:
    """Compare runs with one another. ``facts`` are in order of time."""
    yield from _names(facts)
    yield from _own_fields(facts)
    yield from _common_prefix(facts)
    yield from _commits(facts)
    yield from _builds(facts)
    yield from _changes(facts)
    yield from _evidence(facts)
    yield from _scorers(facts)


def group(facts: Iterable[RunFacts], key: Callable[[RunFacts], str]) -> dict[str, list[RunFacts]]:
    """Runs by a key, in order; runs without one are left out."""
    out: dict[str, list[RunFacts]] = {}
    for run in facts:
        out.setdefault(key(run), []).append(run)
    out.pop("", None)
    return out


def _receipt(name: str) -> Callable[[RunFacts], str]:
    def text(facts: RunFacts) -> str:
        return "" if facts.run.receipt is None else facts.run.receipt.text(name) or ""

    return text


def _ids(facts: Iterable[RunFacts]) -> str:
    return ", ".join(run.run.run_id for run in facts)


def _names(facts: list[RunFacts]) -> Iterator[Finding]:
    """Where folders are named by receipt ids, every folder is."""
    identity = _receipt("receipt_id")
    sealed = [run for run in facts if identity(run) and run.run.files]
    odd = [run for run in sealed if plain(identity(run)) != plain(run.run.run_id)]
    if 2 * len(odd) < len(sealed):
        for run in odd:
            message = f"{run.run.run_id}: the folder's name is not its receipt's id, as it is in the other folders"
            found = identity(run)[:80]
            yield Finding(Code.FOREIGN_CONTRADICTION, message, run.run.place, expected=run.run.run_id, found=found)


def _own_fields(facts: list[RunFacts]) -> Iterator[Finding]:
    """What no two receipts may share; told apart from what two seals have in common by how it is derived."""
    for name in OWN:
        for runs in group(facts, _receipt(name)).values():
            if len(runs) > 1:
                yield from _shared(name, sorted(runs, key=lambda run: name == "tdx.nonce" and not _is_derived(run)))


def _shared(name: str, runs: list[RunFacts]) -> Iterator[Finding]:
    seals: dict[tuple[str, ...], RunFacts] = {}
    for run in runs:
        nonce = name == "tdx.nonce" and (_is_derived(run) or _may_be_derived(run, runs[0]))
        derived = name == "receipt_id" or nonce
        first = seals.setdefault(_seal(run) if derived else (), runs[0] if not derived else run)
        assert run.run.receipt is not None
        at, this = run.run.receipt.at(name), run.run.run_id
        if first is not run:
            yield Finding(Code.FOREIGN_SAME_RECEIPT, f"{this}: {name} is that of {first.run.run_id}", at)
        elif run is not runs[0]:
            own = [field for field in _SEALED if _receipt(field)(run) != _receipt(field)(runs[0])]
            message = f"{this}: {name} is that of {runs[0].run.run_id}, {_DERIVED_FROM[name]}; it differs in "
            yield Finding(Code.FOREIGN_ID_REPEATED, message + ", ".join(own), at)


def _seal(run: RunFacts) -> tuple[str, ...]:
    """What a quote covers; without one, nothing tells two receipts of one id apart."""
    return tuple(plain(_receipt(field)(run)) for field in _SEALED)


def _is_derived(run: RunFacts) -> bool:
    """Whether the nonce is a digest of what was to be measured: then a second measurement has the same by right."""
    receipt = run.run.receipt
    parts = [] if receipt is None else [receipt.text(path) for path in NONCE_COVERS]
    return _receipt("tdx.nonce")(run) == sha256_hex("".join(part or "" for part in parts))


def _may_be_derived(run: RunFacts, first: RunFacts) -> bool:
    """Whether it is as long as a digest, and both receipts are of one commit: what else was hashed is not known."""
    return len(_receipt("tdx.nonce")(run)) == 64 and run.text("commit") == first.text("commit")


def _common_prefix(facts: list[RunFacts]) -> Iterator[Finding]:
    heads = group(facts, lambda run: _receipt("tdx.quote_b64")(run)[:64])
    for runs in heads.values():
        if len(runs) > 1:
            first = runs[0].run.receipt
            assert first is not None
            message = (
                f"the first 64 characters of the quote, which receipt ids cover, are the same in {len(runs)} receipts"
            )
            yield Finding(Code.FOREIGN_RECEIPT_ID_COMMON, message, first.at("tdx.quote_b64"))


def _commits(facts: list[RunFacts]) -> Iterator[Finding]:
    for commit, runs in group(facts, lambda run: plain(run.text("commit"))[:7]).items():
        if len(runs) > 1:
            labels = ", ".join(f"{run.text('label') or 'no label'} at {run.text('tps') or 'no speed'}" for run in runs)
            message = f"commit {commit} was measured {len(runs)} times: {labels} ({_ids(runs)})"
            yield Finding(Code.FOREIGN_SAME_COMMIT, message, runs[1].at("commit"))
        builds = group(runs, lambda run: plain(run.text("build_hash")))
        if len(builds) > 1:
            message = f"commit {commit} has {len(builds)} build digests ({_ids(runs)})"
            yield Finding(Code.FOREIGN_BUILD_DIFFERS, message, runs[1].at("build_hash"))


def _builds(facts: list[RunFacts]) -> Iterator[Finding]:
    for build, runs in group(facts, lambda run: plain(run.text("build_hash"))).items():
        commits = group(runs, lambda run: plain(run.text("commit"))[:7])
        if len(commits) > 1:
            message = f"build {build[:12]} is that of commits {', '.join(commits)} ({_ids(runs)})"
            yield Finding(Code.FOREIGN_BUILD_SHARED, message, runs[1].at("build_hash"))


def _changes(facts: list[RunFacts]) -> Iterator[Finding]:
    marked = [run for run in facts if run.text("model_fingerprint")]
    for before, after in pairwise(marked):
        old, new = before.text("model_fingerprint"), after.text("model_fingerprint")
        if old != new and before.text("model_sha256") == after.text("model_sha256"):
            message = f"{after.run.run_id}: model_fingerprint is {new}, was {old}; model_sha256 is unchanged"
            yield Finding(Code.FOREIGN_WEIGHTS_CHANGED, message, after.at("model_fingerprint"), old, new)
    digest = _receipt("tdx.bound_digest")
    for before, after in pairwise([run for run in facts if digest(run)]):
        if plain(digest(before)) != plain(digest(after)) and after.run.receipt is not None:
            message = f"{after.run.run_id}: bound_digest is not that of the run before"
            at = after.run.receipt.at("tdx.bound_digest")
            yield Finding(Code.FOREIGN_BOUND_DIGEST, message, at, digest(before), digest(after))


def _evidence(facts: list[RunFacts]) -> Iterator[Finding]:
    def depths(run: RunFacts) -> str:
        names = sorted(name for name in run.facts if name.startswith("kl_depths."))
        return " ".join(f"{name}={run.text(name)}" for name in names if run.first(name) is not None)

    for runs in group(facts, depths).values():
        commits = group(runs, lambda run: plain(run.text("commit"))[:7])
        if len(commits) > 1:
            message = f"kl_depths are digit-identical in {len(runs)} runs of {len(commits)} commits ({_ids(runs)})"
            assert runs[0].run.result is not None
            yield Finding(Code.FOREIGN_EVIDENCE_REPEATED, message, runs[1].at("kl_depths.ctx4.kl"))


def _scorer(run: RunFacts) -> str:
    return run.text("scoring_scripts_commit")


def _scorers(facts: list[RunFacts]) -> Iterator[Finding]:
    """The ways in which the scorer's recorded commit is shown to be wrong by the log itself."""
    scored = [run for run in facts if _scorer(run)]
    reasons: dict[str, list[str]] = {}
    for run, reason in (*_out_of_turn(scored), *_out_of_round(scored), *_out_of_shape(scored)):
        reasons.setdefault(run.run.run_id, []).append(reason)
    for run in scored:
        if run.run.run_id in reasons:
            message = f"{run.run.run_id}: {_scorer(run)[:12]}: {'; '.join(reasons[run.run.run_id])}"
            yield Finding(Code.FOREIGN_SCORER_COMMIT, message, run.at("scoring_scripts_commit"))


def _out_of_turn(scored: list[RunFacts]) -> Iterator[tuple[RunFacts, str]]:
    """A lone run between two of another scorer, or a scorer that comes back after it was replaced."""
    lone = {
        at + 1
        for at, (before, run, after) in enumerate(zip(scored, scored[1:], scored[2:], strict=False))
        if _scorer(before) == _scorer(after) != _scorer(run)
    }
    yield from ((scored[at], "the runs before and after it have another one") for at in sorted(lone))
    left: set[str] = set()
    for before, run in pairwise([run for at, run in enumerate(scored) if at not in lone]):
        if _scorer(run) != _scorer(before):
            left.add(_scorer(before))
            if _scorer(run) in left:
                yield run, "a later one had already replaced it"


def _out_of_round(scored: list[RunFacts]) -> Iterator[tuple[RunFacts, str]]:
    """A run whose scorer is not that of most runs of its round, that is of the same log text."""
    for runs in group(scored, lambda run: "" if run.run.log is None else run.run.log.sha256).values():
        common, count = Counter(map(_scorer, runs)).most_common(1)[0]
        for run in runs:
            if count > 1 and _scorer(run) != common:
                yield run, "most runs of its round have another one"


def _out_of_shape(scored: list[RunFacts]) -> Iterator[tuple[RunFacts, str]]:
    """A run whose result has other fields than more than half that the same scorer wrote; of two, the later one."""
    for runs in group((run for run in scored if shape(run)), _scorer).values():
        common, count = Counter(map(shape, runs)).most_common(1)[0]
        for run in runs:
            if shape(run) != common and (2 * count > len(runs) or len(runs) == PAIR):
                yield run, "its other results have other fields"


def shape(facts: RunFacts) -> frozenset[str]:
    """Names of the fields that a scorer writes whatever the outcome."""
    record = facts.run.result or facts.run.sealed
    return frozenset() if record is None else frozenset(record.object) - VARYING
