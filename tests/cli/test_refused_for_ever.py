"""What verify would call false for ever is refused before it is appended: every kind, every code of steps 9 to 14.

A table says for each (kind, code) how such an entry is made. Forced into a log by its keys, verify refuses it; the
command that would append it refuses it by the same code and leaves the ledger as it is; and mended in that one thing it
is appended. What no writer can know stands in :data:`ELSEWHERE`, with the reason.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from k3_ledger.ledger.writer import sizes
from k3_ledger.ledger.writer.store import Ledger
from k3_ledger.schemas.envelope import REFERENCES, ROOT_ACTIONS, SIGNING_ROLES
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.findings.row import Area
from k3_ledger.schemas.models import BODIES
from k3_ledger.schemas.outcomes import ExitCode
from tests.ledgers import JUDGE, LOG, ROOT, RUNNER, Builder, bundle_digest, canonical, run_body
from tests.rescore.receipts import DECODE, parity
from tests.rescore.test_admission import CASES as JUDGED_CASES
from tests.rescore.test_admission import forged
from tests.schemas.examples import smallest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = b"what was measured with"
DIGEST, SIZE = hashlib.sha256(DATA).hexdigest(), len(DATA)
NOBODY = "0" * 64
KEYS = {"root": ROOT, "log": LOG, "runner": RUNNER, "judge": JUDGE}
AREAS = {Area.ARTIFACT, Area.RECEIPT, Area.PINS, Area.VERDICTS, Area.TIMESTAMP}
"""Areas of what steps 9 to 12 and 14 say of entries; what step 13 says needs no certificate for stands elsewhere."""


def artifact(**changes: Any) -> dict[str, Any]:
    return {"media_type": "text/plain", "name": "a.txt", "sha256": DIGEST, "size": SIZE, **changes}


def sealed(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "bundle": bundle_digest(body, kind)}


def receipt(**changes: Any) -> dict[str, Any]:
    return sealed("run", run_body(**changes))


def series(**changes: Any) -> dict[str, Any]:
    return {**run_body()["timing"][0], **changes}


def sample(**changes: Any) -> dict[str, Any]:
    return {"start_ns": 0, "duration_ns": 900, "count": 10, **changes}


def of(kind: str, **changes: Any) -> dict[str, Any]:
    """The smallest body of a kind, with a digest that fits where it needs one."""
    body = {**smallest(kind)["body"], **changes}
    return sealed(kind, body) if kind in ("run", "failed") else body


@dataclass(frozen=True)
class Case:
    """A body that verify refuses, and the same without that fault."""

    kind: str
    code: Code
    wrong: dict[str, Any]
    right: dict[str, Any] | None
    note: str = ""

    @property
    def role(self) -> str:
        return min(SIGNING_ROLES[self.kind] - {"root"})

    def __str__(self) -> str:
        return f"{self.kind} {self.code.name.lower()} {self.note}".strip()


NAMED = [kind for kind, model in BODIES.items() if "artifacts" in model.model_fields]
"""Kinds whose entries name artifacts."""


def with_artifacts(kind: str, *named: dict[str, Any]) -> dict[str, Any]:
    body = receipt(artifacts=[*named]) if kind == "run" else of(kind, artifacts=[*named])
    return {**body, "original_sha256": named[0]["sha256"]} if kind == "import" else body


def artifact_cases() -> Iterator[Case]:
    other = hashlib.sha256(b"withheld").hexdigest()
    for kind in NAMED:
        stored = Code.ARTIFACT_MISMATCH
        yield Case(kind, stored, with_artifacts(kind, artifact(size=1)), with_artifacts(kind, artifact()), "stored")
        there = artifact(sha256=other, size=8)  # entry 4 gives it this size
        yield Case(
            kind, Code.ARTIFACT_SIZE, with_artifacts(kind, {**there, "size": 9}), with_artifacts(kind, there), "earlier"
        )
        fresh = artifact(sha256=NOBODY, size=3)
        twice = with_artifacts(kind, fresh, {**fresh, "name": "b.txt", "size": 4})
        yield Case(kind, Code.ARTIFACT_SIZE, twice, with_artifacts(kind, fresh), "twice in one body")


SLOT = f"frontier:{DECODE}"
SOUND = {"pin": {"slot": SLOT, "value": "1", "unit": "tok/s"}, "supersede": {"target": "RUN"}, "merge": {"slot": SLOT}}
"""What a smallest body lacks to be sound but for what it names."""
MENDED = {("round", "frontier"), ("round", "runs"), ("supersede", "target"), ("merge", "run")}
"""Fields in which any run is right; a pin and a verdict have to follow from it, which other tests look at."""


def reference_cases() -> Iterator[Case]:
    for kind, fields in REFERENCES.items():
        for field in fields:
            listed = field == "runs"
            for code, target in ((Code.REFERENCE_UNKNOWN, NOBODY), (Code.REFERENCE_KIND, "GENESIS")):
                wrong = of(kind, **{**SOUND.get(kind, {}), field: [target] if listed else target})
                right = {**wrong, field: ["RUN"] if listed else "RUN"}
                yield Case(kind, code, wrong, right if (kind, field) in MENDED else None, field)


def receipt_cases() -> Iterator[Case]:
    good = receipt()
    slow, early = [sample(), sample(start_ns=1000)], [sample(), sample(start_ns=10)]
    for note, code, changes in (
        ("", Code.RECEIPT_CLOCK, {"timing": [series(samples=early)]}),
        ("", Code.RECEIPT_IMPOSSIBLE, {"timing": [series(samples=[sample(count=1000), slow[1]])]}),
        ("context", Code.RECEIPT_COUNTS, {"timing": [series(context_filled=129)]}),
        ("load", Code.RECEIPT_COUNTS, {"expert_load": {"experts": 1, "tokens": 1, "distinct": 2, "max_load": 1}}),
    ):
        yield Case("run", code, receipt(**changes), good, note)
    graded = parity()
    first = graded["depths"][0]
    for note, depth in (("depths", {}), ("negative", {"kl_mean": "-1"}), ("mean", {"kl_max": "0"})):
        wrong = [first, {**first, **depth}] if note == "depths" else [{**first, "kl_mean": "1", "kl_max": "2", **depth}]
        yield Case(
            "run", Code.RECEIPT_PARITY, receipt(parity={**graded, "depths": wrong}), receipt(parity=graded), note
        )
    yield Case("run", Code.RECEIPT_BUNDLE, {**good, "bundle": NOBODY}, good)
    alike = [artifact(), artifact()]
    for kind in ("run", "failed"):
        mended = with_artifacts(kind, artifact(), artifact(name="b.txt"))
        yield Case(kind, Code.ARTIFACT_NAME_TAKEN, with_artifacts(kind, *alike), mended)
    failed = of("failed")
    yield Case("failed", Code.RECEIPT_BUNDLE, {**failed, "bundle": NOBODY}, failed)
    right = with_artifacts("import", artifact())
    yield Case("import", Code.IMPORT_ORIGINAL, {**right, "original_sha256": NOBODY}, right)
    record = with_artifacts("import", artifact(name="runs/a1/result.json"))
    read = {**record, "format": "polaris/1", "foreign_id": "a1", "attestation": "none", "fields": [], "findings": []}
    yield Case("import", Code.IMPORT_FIELDS, {**read, "fields": [{"name": "result.tps", "value": "1"}]}, read)


TABLE = [*receipt_cases(), *artifact_cases(), *reference_cases()]

ELSEWHERE = {
    Code.IMPORT_DIFFERS: "said by `import polaris` of a foreign log, and never of a ledger",
    Code.TIMESTAMP_BAD: "said under authorities that the reader names, and those alone",
    Code.BUNDLE_MISMATCH: "said of a bundle by `seal`, and never of a ledger",
    Code.PIN_STALE: "said by `reconcile`, and never by `verify`",
    Code.PIN_ALARM: "said by `reconcile`, and never by `verify`",
    Code.PIN_STAMP: "tests/rescore/test_pin_stamps.py",
    Code.PIN_LOWERED: "tests/rescore/test_reconcile_state.py",
    Code.SUPERSEDE_REPLACEMENT: "tests/rescore/test_supersessions.py",
}


def test_the_table_is_whole() -> None:
    said = {code for code in Code if code.info.area in AREAS and code.info.exit is ExitCode.FALSE}
    names = dict.fromkeys(("frontier", "reference", "rule"), NOBODY)
    judged = {code for _, _, code in (forged(names)[case] for case in JUDGED_CASES)}
    held = {case.code for case in TABLE}
    assert said == held | (judged & said) | ELSEWHERE.keys()
    assert not held & ELSEWHERE.keys()
    pairs = {(case.kind, case.code) for case in TABLE}
    assert {(kind, code) for kind in NAMED for code in (Code.ARTIFACT_SIZE, Code.ARTIFACT_MISMATCH)} <= pairs
    assert {(kind, code) for kind in REFERENCES for code in (Code.REFERENCE_UNKNOWN, Code.REFERENCE_KIND)} <= pairs
    assert SIGNING_ROLES.keys() - {case.kind for case in TABLE} == ROOT_ACTIONS | {"genesis", "rule", "witness"}, (
        "step 5 judges root actions; a rule is in tests/rescore/test_admission.py, a witness entry in step 8's tests"
    )


class Desk:
    """A ledger whose keys a test holds, as files and as keys, with one artifact stored and one withheld."""

    def __init__(self, place: Path) -> None:
        for name, key in KEYS.items():
            private = Ed25519PrivateKey.from_private_bytes(bytes(key.signing))
            pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            (place / f"{name}.pem").write_bytes(pem)
            (place / f"{name}.pem").chmod(0o600)
        self.builder = Builder().open()
        withheld = artifact(name="withheld", sha256=hashlib.sha256(b"withheld").hexdigest(), size=8)
        self.run = self.builder.add("run", run_body(artifacts=[withheld]), RUNNER)
        self.ledger = place / "ledger"
        self.body = place / "body.json"
        blob = self.ledger / "blobs" / "sha256" / DIGEST[:2] / DIGEST
        blob.parent.mkdir(parents=True)
        blob.write_bytes(DATA)
        self.builder.write(self.ledger)

    def named(self, body: Any) -> Any:
        """The body with the identities that stand here."""
        genesis = hashlib.sha256(self.builder.lines[0][9:-99]).hexdigest()
        return json.loads(json.dumps(body).replace("GENESIS", genesis).replace('"RUN"', f'"{self.run}"'))

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(self.ledger.rglob("*")) if path.is_file()}


@pytest.fixture
def desk(run: Any, tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def append(run: Any, desk: Desk, kind: str, role: str, body: dict[str, Any]) -> Any:
    desk.body.write_text(json.dumps(desk.named(body)))
    return run("append", kind, "--body", "body.json", "-l", "ledger", "-k", f"{role}.pem")


@pytest.mark.parametrize("case", TABLE, ids=str)
def test_verify_refuses_it_append_refuses_it_and_takes_it_mended(run: Any, desk: Desk, case: Case) -> None:
    before = desk.files()
    done = append(run, desk, case.kind, case.role, case.wrong)
    said = Code.PIN_UNSOURCED if case.kind == "pin" else case.code  # of a pin, what it lacks is said first
    assert (done.code, f"[{said.id}]" in done.err) == (1, True), done
    assert "nothing was appended" in done.err or "hint: " in done.err
    assert desk.files() == before
    if case.right is not None:
        done = append(run, desk, case.kind, case.role, case.right)
        assert done.code == 0, done
        done = run("verify", "ledger")
        assert done.code == 0, done.out
        desk.builder.write(desk.ledger)
    desk.builder.add(case.kind, desk.named(case.wrong), KEYS[case.role], seal=False)
    desk.builder.write(desk.ledger)
    report = run("verify", "ledger", "--json")
    assert report.code == 1
    assert case.code.id in {finding["code"] for finding in report.json["findings"]}


WITHHELD = artifact(name="withheld", sha256=hashlib.sha256(b"withheld").hexdigest(), size=8)


def test_a_size_that_was_taken_back_is_held_against_nobody(run: Any, desk: Desk) -> None:
    other = artifact(sha256=hashlib.sha256(b"later").hexdigest(), size=5)
    assert append(run, desk, "note", "judge", of("note", artifacts=[{**other, "size": 6}])).code == 0
    honest = with_artifacts("run", other)
    refused = append(run, desk, "run", "runner", honest)
    assert (refused.code, "entry 5 gives this digest another size" in refused.err) == (1, True)
    assert "revoke the key of entry 5" in refused.err
    assert run("key", "revoke", "judge", "--from", "5", "-l", "ledger", "-k", "root.pem").code == 0
    assert append(run, desk, "run", "runner", honest).code == 0


def test_the_log_is_read_once_for_sizes(run: Any, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    true, asked = sizes.other_sizes, Counter[str]()

    def counted(*given: Any) -> Any:
        asked["log"] += 1
        return true(*given)

    monkeypatch.setattr(sizes, "other_sizes", counted)
    monkeypatch.setattr(sizes, "read_state", lambda _: pytest.fail("no size differs: the keys are not asked for"))
    for number in range(2):
        assert append(run, desk, "note", "judge", of("note", artifacts=[WITHHELD])).code == 0
        assert asked["log"] == number + 1


def test_what_only_looks_like_an_artifact_is_none(run: Any, desk: Desk) -> None:
    said = f'"sha256":"{WITHHELD["sha256"]}","size":9'
    assert append(run, desk, "note", "judge", of("note", text=said)).code == 0
    assert append(run, desk, "note", "judge", of("note", artifacts=[WITHHELD])).code == 0
    other = artifact(sha256=NOBODY, size=80)
    assert append(run, desk, "note", "judge", of("note", artifacts=[other])).code == 0
    for named in ({**WITHHELD, "size": 80}, {**other, "size": 8}):
        refused = append(run, desk, "note", "judge", of("note", artifacts=[named]))
        assert (refused.code, refused.err.count("error: ")) == (1, 1)


def test_every_entry_that_gives_another_size_is_found_and_no_other(desk: Desk) -> None:
    ones = [artifact(name=name, sha256=hashlib.sha256(name.encode()).hexdigest(), size=5) for name in ("one", "two")]
    for given in ((6, 5), (5, 5), (6, 7)):
        named = [{**one, "size": size} for one, size in zip(ones, given, strict=True)]
        desk.builder.add("note", of("note", artifacts=named), JUDGE)
    desk.builder.runs(1)
    desk.builder.write(desk.ledger)
    found = sizes.other_sizes(Ledger.open(desk.ledger), {one["sha256"]: 5 for one in ones})
    assert [(other.position, other.size) for other in found] == [(5, 6), (7, 6), (7, 7)]


def test_a_line_that_cannot_be_read_says_nothing_of_a_size(run: Any, desk: Desk) -> None:
    wrong = desk.builder.lines[4].replace(b'"size":8', b'"size":9').replace(b'"role":', b'"ROLE":')
    desk.builder.lines[4] = wrong
    desk.builder.runs(1)
    desk.builder.write(desk.ledger)
    assert append(run, desk, "note", "judge", of("note", artifacts=[WITHHELD])).code == 0


def test_a_damaged_artifact_says_nothing_about_a_body(run: Any, desk: Desk) -> None:
    blob = next(path for path in desk.ledger.rglob("*") if path.name == DIGEST)
    blob.write_bytes(DATA[:-1])
    done = append(run, desk, "note", "judge", of("note", artifacts=[artifact()]))
    assert (done.code, "[K3L-BLOB-DAMAGED]" in done.err) == (1, True)


@pytest.mark.parametrize("named", [SIZE, SIZE + 1], ids=["right", "wrong"])
def test_seal_looks_for_the_size_as_append_does(run: Any, desk: Desk, tmp_path: Path, named: int) -> None:
    assert (desk.ledger / "blobs").exists()
    for path in sorted((desk.ledger / "blobs").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()  # nobody has the bytes yet
    assert append(run, desk, "note", "judge", of("note", artifacts=[artifact(size=named)])).code == 0
    body = {name: value for name, value in run_body(artifacts=[artifact()]).items() if name != "bundle"}
    bundle = tmp_path / "bundle"
    (bundle / "blobs").mkdir(parents=True)
    (bundle / "bundle.json").write_bytes(canonical({"body": body, "kind": "run", "schema": "k3-ledger/bundle/1"}))
    (bundle / "blobs" / DIGEST).write_bytes(DATA)
    before = desk.files()
    done = run("seal", "bundle", "-l", "ledger", "-k", "runner.pem")
    assert (done.code, "[K3L-ARTIFACT-SIZE]" in done.err) == ((0, False) if named == SIZE else (1, True))
    assert (desk.files() == before) == (named != SIZE)
