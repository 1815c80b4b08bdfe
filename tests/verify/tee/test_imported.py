"""Quotes of imported receipts: checked with the reader's certificates where the originals are here, else named."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from docs.examples.made_up_intel import FLAGS, World

from k3_ledger.schemas.errors import StoreError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import ExitCode
from k3_ledger.verify.attestation import AttestationPolicy
from k3_ledger.verify.log import check_log
from k3_ledger.verify.polaris import audit, originals, parse_log, to_import
from k3_ledger.verify.policy import TrustPolicy
from k3_ledger.verify.source import MemorySource
from tests.ledgers import LOG, ROOT, Builder, key_body, sign_head, small_ledger
from tests.verify.polaris import make_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from k3_ledger.verify.report import Report

WORLD = World()
DEMANDS = AttestationPolicy(measurements=(("mrtd", frozenset({"c1" * 48})),), anchors=WORLD.anchors())


@pytest.fixture(autouse=True)
def quotes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave what imports copied to its own tests: here it is nothing, or made up."""
    monkeypatch.setattr(originals, "check_originals", lambda *_: None)


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Builder, dict[str, bytes]]]:
    """A ledger that imported a log whose quotes ``world`` made, and its artifacts."""

    def build(world: World = WORLD, change: Callable[[Any], None] = lambda _: None) -> tuple[Builder, dict[str, bytes]]:
        monkeypatch.setattr(make_log, "quote", lambda _, data: world.quote(data, padding=bytes(5)))
        draft = make_log.draft()
        for run in draft.runs:
            run.attestation["timestamp_utc"] = "2026-06-01T00:00:00Z"
            run.tdx["collateral_b64"] = make_log.b64(world.collateral())
            change(run)
        files = make_log.build(draft)
        made = small_ledger(1)
        blobs: dict[str, bytes] = {}
        for item in to_import(parse_log(files), files, audit(files)):
            made.add("import", item.body, LOG)
            blobs |= item.blobs
        return made, blobs

    return build


def judged(made: Builder, blobs: dict[str, bytes], demands: AttestationPolicy | None = DEMANDS) -> Report:
    source = MemorySource(made.data, checkpoint=sign_head(made.lines), artifacts=blobs)
    return check_log(source, TrustPolicy(ROOT.public, attestation=demands))


def step(report: Report) -> tuple[int, int, int]:
    found = next(result for result in report.steps if result.name == "attestations")
    return found.checked, found.failed, found.not_checked


def quoted(made: Builder) -> int:
    return sum(b'"attestation":"tdx-quote"' in line for line in made.lines)


def imports(made: Builder) -> int:
    return sum(b'"kind":"import"' in line for line in made.lines)


def test_quotes_of_imports_are_checked_where_their_originals_are_here(imported: Any) -> None:
    made, blobs = imported()
    count = quoted(made)
    report = judged(made, blobs)
    assert (count > 1, report.exit_code) == (True, ExitCode.VERIFIED)
    assert step(report) == (count, 0, 0)
    assert set(report.counts) == {Code.QUOTE_MALLEABLE, Code.QUOTE_TIME_UNBOUND}
    assert report.findings[0].position.index is not None
    detail = next(result.detail for result in report.steps if result.name == "attestations")
    assert f"{count} imported receipts with foreign attestations, {count} of which hold" in detail


def test_without_a_trust_directory_or_the_originals_they_are_not_checked(imported: Any) -> None:
    made, blobs = imported()
    for given, demands in ((blobs, None), (blobs, replace(DEMANDS, anchors=()))):
        report = judged(made, given, demands)
        assert step(report) == (0, 0, quoted(made))
    report = judged(made, {})
    assert imports(made) > quoted(made), (
        "what an original that is not here carries cannot be told, whatever it is called"
    )
    assert step(report) == (0, 0, imports(made))
    assert report.counts[Code.IMPORT_QUOTE_OPEN] == imports(made)
    changed = {digest: data + b" " for digest, data in blobs.items()}
    assert step(judged(made, changed)) == (0, 0, imports(made))


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], Code]] = {
    "another root": ({"root_key": 99}, {}, Code.QUOTE_CHAIN),
    "a platform that is not allowed": ({"flags": FLAGS | {"smt": b"\xff"}}, {}, Code.QUOTE_PLATFORM),
    "another pin": ({}, {"measurements": (("mrtd", frozenset({"c2" * 48})),)}, Code.QUOTE_MEASUREMENT),
    "much later": ({}, {"at": 1_900_000_000}, Code.QUOTE_EXPIRED),
}


@pytest.mark.parametrize(("world", "demands", "code"), WRONG.values(), ids=WRONG)
def test_a_quote_that_does_not_hold_is_an_error_of_its_entry(
    imported: Any, world: dict[str, Any], demands: dict[str, Any], code: Code
) -> None:
    made, blobs = imported(World(**world))
    report = judged(made, blobs, replace(DEMANDS, **demands))
    assert (report.exit_code, code in report.counts) == (ExitCode.FALSE, True)
    assert step(report) == (quoted(made), quoted(made), 0)


UNBOUND = {Code.FOREIGN_ATTESTATION_UNBOUND, Code.FOREIGN_NONCE_UNBOUND}


@pytest.mark.parametrize(
    ("demands", "code", "told"),
    [({}, ExitCode.VERIFIED, UNBOUND), ({"at": 1_900_000_000}, ExitCode.FALSE, set())],
    ids=["holds", "expired"],
)
def test_what_a_quote_leaves_open_is_told_where_it_holds_and_not_why_it_fails(
    imported: Any, demands: dict[str, Any], code: ExitCode, told: set[Code]
) -> None:
    made, blobs = imported(change=lambda run: run.tdx.update(nonce=make_log.sha(run.attestation["timestamp_utc"] * 2)))
    report = judged(made, blobs, replace(DEMANDS, **demands))
    assert (report.exit_code, {one for one in report.counts if one.name.startswith("FOREIGN")}) == (code, told)
    assert all(report.counts[one] == quoted(made) for one in told)


def test_a_quote_of_another_receipt_is_not_this_ones(imported: Any) -> None:
    _, blobs = imported()
    originals = [digest for digest, data in blobs.items() if b'"quote_b64"' in data]
    one, two = (json.loads(blobs[digest]) for digest in originals[:2])
    one["tdx"]["quote_b64"] = two["tdx"]["quote_b64"]
    data = json.dumps(one).encode()
    digest = hashlib.sha256(data).hexdigest()
    artifact = {"name": "receipt.json", "sha256": digest, "size": len(data), "media_type": "application/json"}
    forged = small_ledger(1)
    forged.add("import", body(artifact), LOG)
    report = judged(forged, {digest: data})
    assert (report.exit_code, Code.FOREIGN_HASH in report.counts, step(report)) == (ExitCode.FALSE, True, (1, 1, 0))


def body(artifact: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "format": "polaris/1", "foreign_id": "x", "original_sha256": artifact["sha256"], "attestation": "tdx-quote",
        "fields": [], "findings": [], "artifacts": [artifact], **changes,
    }  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"no JSON", b"[]", b"{}", b'{"tdx":{}}', b"x" * (1 << 22) + b"y"])
@pytest.mark.parametrize("changes", [{}, {"format": "other/1"}, {"attestation": "ed25519"}])
def test_an_original_that_cannot_be_judged_is_not_checked(data: bytes, changes: dict[str, Any]) -> None:
    digest = hashlib.sha256(data).hexdigest()
    artifact = {"name": "receipt.json", "sha256": digest, "size": len(data), "media_type": "application/json"}
    made = small_ledger(1)
    made.add("import", body(artifact, **changes), LOG)
    report = judged(made, {digest: data})
    assert (set(report.counts), step(report)) == ({Code.IMPORT_QUOTE_OPEN}, (0, 0, 1))
    assert report.exit_code is ExitCode.VERIFIED


def test_an_original_that_cannot_be_read_is_not_checked(imported: Any) -> None:
    class Failing(MemorySource):
        def open_artifact(self, digest: str) -> Any:
            raise StoreError(Code.UNREADABLE, f"{digest}: the disk failed")

    made, _ = imported()
    report = check_log(Failing(made.data), TrustPolicy(ROOT.public, attestation=DEMANDS))
    assert step(report) == (0, 0, imports(made))
    assert report.counts[Code.IMPORT_QUOTE_OPEN] == imports(made)


def relabelled(made: Builder, **labels: str) -> Builder:
    """The same imports by an importer who calls them otherwise."""
    new = small_ledger(1)
    for line in made.lines[len(new.lines) :]:
        new.add("import", {**json.loads(line[9:-99])["body"], **labels}, LOG)
    return new


@pytest.mark.parametrize("label", ["none", "ed25519", "nothing"])
def test_what_the_importer_calls_it_does_not_decide_whether_a_quote_is_looked_at(imported: Any, label: str) -> None:
    made, blobs = imported(World(root_key=99))
    report = judged(relabelled(made, attestation=label), blobs)
    assert (report.exit_code, Code.QUOTE_CHAIN in report.counts) == (ExitCode.FALSE, True)
    assert step(report)[1] == quoted(made)
    good, blobs = imported()
    assert step(judged(relabelled(good, attestation="none"), blobs)) == (quoted(good), 0, 0)
    other = judged(relabelled(good, attestation="none", format="other/1"), blobs)
    assert step(other) == (0, 0, quoted(good)), "nor does the name of the format"


def test_an_import_without_a_quote_is_none_and_counted_nowhere() -> None:
    for data in (b"a round's log", b"[]", b"{}", b'{"attestation_type":"none"}', b'{"result":{"tdx":1}}'):
        assert judged_as(data, attestation="none") == ((0, 0, 0), set(), "no enclave quotes")
    for data in (b'{"tdx":{}}', b'{"tdx":[]}', b'{"tdx":null}', b'{"attestation_type":"tdx-quote"}'):
        assert judged_as(data, attestation="none")[:2] == ((0, 0, 1), {Code.IMPORT_QUOTE_OPEN})


UNREAD: dict[str, Callable[[bytes], bytes]] = {
    "a byte behind it": lambda data: data + b"x",
    "a NUL behind it": lambda data: data + b"\0",
    "two documents": lambda data: data + b"\n" + data,
    "a list": lambda data: b"[" + data + b"]",
    "a string": lambda data: json.dumps(data.decode()).encode(),
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "UTF-16 without a mark": lambda data: data.decode().encode("utf-16-le"),
    "compressed": gzip.compress,
    "bad UTF-8": lambda data: data.rstrip()[:-1] + b',"z":"\xff"}',
    "a lone surrogate": lambda data: data.rstrip()[:-1] + b',"z":"\\ud800"}',
    "deep": lambda data: data.rstrip()[:-1] + b',"z":' + b"[" * 500 + b"]" * 500 + b"}",
    "cut off": lambda data: data[:-2],
    "escaped": lambda data: (
        data.replace(b'"tdx"', b'"\\u0074d\\u0078"').replace(b'"quote_b64"', b'"qu\\u006Fte_b64"') + b"x"
    ),
    "base64 alone": lambda data: b"see " + json.loads(data)["tdx"]["quote_b64"].encode(),
}


@pytest.mark.parametrize("how", UNREAD)
def test_a_quote_that_nobody_can_read_is_not_passed_over(imported: Any, how: str) -> None:
    """The importer calls it `none`; what its original is cannot be told."""
    _, blobs = imported(World(root_key=99))
    receipt = next(data for data in blobs.values() if b'"quote_b64"' in data)
    original = UNREAD[how](receipt)
    for label in ("none", "ed25519", "tdx-quote"):
        found, codes, _ = judged_as(original, attestation=label)
        assert (found, codes) == ((0, 0, 1), {Code.IMPORT_QUOTE_OPEN}), label
    beside = judged_beside(b"a round's log", original)
    assert (step(beside), set(beside.counts)) == ((0, 0, 1), {Code.IMPORT_QUOTE_OPEN})


@pytest.mark.parametrize("how", UNREAD)
def test_beside_a_quote_that_holds_only_what_looks_like_another_is_named(imported: Any, how: str) -> None:
    _, blobs = imported()
    good, other = [data for data in blobs.values() if b'"quote_b64"' in data][:2]
    report = judged_beside(good, UNREAD[how](other), attestation="tdx-quote")
    told = how not in {"UTF-16", "UTF-16 without a mark", "compressed"}  # as what is not here
    assert (step(report), Code.IMPORT_QUOTE_OPEN in report.counts) == ((0, 0, 1) if told else (1, 0, 0), told)


def test_the_name_of_a_quote_is_enough_however_it_is_spelled() -> None:
    for data in (b'{"tdx":1}x', b'{"\\u0074dx":1}x', b'{"qu\\u006Fte_b64":1}x', b'[{"qu\\u006fte_b64":1}]', b'"tdx"'):
        assert judged_as(data, attestation="none")[:2] == ((0, 0, 1), {Code.IMPORT_QUOTE_OPEN}), data


def test_what_is_no_object_and_looks_like_no_quote_is_the_text_that_it_is() -> None:
    plain = (
        b"a round's log: tdx quote made, quote_b64 kept",
        b"no tdx, \\u0074dx neither",
        b"sha256 " + b"0" * 1023 + b" " + b"f" * 1023,
        b"=" * 5000,
        b"-" * 5000,
        b'["result", {"x": 1}]',
        b'{"result":',
        "h\u00e4ufig".encode(),
        b"",
    )
    for data in plain:
        assert judged_as(data, attestation="none") == ((0, 0, 0), set(), "no enclave quotes"), data[:40]
        assert step(judged_beside(b"{}", data)) == (0, 0, 0), data[:40]
    row = json.dumps({"log_b64": "A" * 5000}).encode()  # one object: what it says of itself counts
    assert judged_as(row, attestation="none")[0] == step(judged_beside(b"{}", row)) == (0, 0, 0)


def test_a_byte_order_mark_hides_nothing(imported: Any) -> None:
    _, blobs = imported(World(root_key=99))
    receipt = next(data for data in blobs.values() if b'"quote_b64"' in data)
    found, codes, _ = judged_as(b"\xef\xbb\xbf" + receipt, attestation="none")
    assert (found, Code.QUOTE_CHAIN in codes) == ((1, 1, 0), True)


def hidden(imported: Any, world: World, change: Callable[[bytes], bytes] = bytes, **labels: str) -> Report:
    """A receipt with a quote, imported under a listing's row that is called the original."""
    _, blobs = imported(world)
    receipt = change(next(data for data in blobs.values() if b'"quote_b64"' in data))
    return judged_beside(b'{"run_id":"x"}', receipt, **labels)


def judged_beside(original: bytes, *others: bytes, here: bool = True, **labels: str) -> Report:
    artifacts = [
        {"name": f"a{at}", "sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "media_type": "text/plain"}
        for at, data in enumerate((original, *others))
    ]
    made = small_ledger(1)
    made.add("import", body(artifacts[0], artifacts=artifacts, **{"attestation": "none", **labels}), LOG)
    return judged(made, {hashlib.sha256(data).hexdigest(): data for data in (original, *(others if here else ()))})


@pytest.mark.parametrize("label", ["none", "ed25519", "tdx-quote"])
@pytest.mark.parametrize("change", [bytes, lambda data: data.replace(b'"tdx"', b'"\\u0074dx"', 1)], ids=["", "escaped"])
def test_a_quote_cannot_hide_behind_another_original(imported: Any, label: str, change: Any) -> None:
    report = hidden(imported, World(root_key=99), change, attestation=label)
    assert report.counts[Code.IMPORT_QUOTE_ELSEWHERE] == 1
    assert (step(report), report.exit_code) == ((0, 0, 1), ExitCode.VERIFIED)
    (finding,) = [one for one in report.findings if one.code is Code.IMPORT_QUOTE_ELSEWHERE]
    assert (finding.position.field, "artifact a1 carries a quote" in finding.message) == ("body.original_sha256", True)


def test_a_policy_that_requires_attestations_is_not_met_by_a_hidden_quote(imported: Any) -> None:
    _, blobs = imported()
    receipt = next(data for data in blobs.values() if b'"quote_b64"' in data)
    artifacts = [
        {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "media_type": "text/plain"}
        for name, data in (("row", b"{}"), ("receipt", receipt))
    ]
    made = small_ledger(1)
    made.add("import", body(artifacts[0], artifacts=artifacts, attestation="none"), LOG)
    policy = TrustPolicy(ROOT.public, attestation=DEMANDS, require=frozenset({"attestations"}))
    stored = {hashlib.sha256(data).hexdigest(): data for data in (b"{}", receipt)}
    assert check_log(MemorySource(made.data, artifacts=stored), policy).exit_code is ExitCode.NOT_CHECKED


def test_a_hidden_quote_beside_one_that_is_checked_is_named_and_a_copy_of_it_is_not(imported: Any) -> None:
    _, blobs = imported()
    receipts = [data for data in blobs.values() if b'"quote_b64"' in data]
    one = json.loads(receipts[0])
    copy = json.dumps({"tdx": {"quote_b64": one["tdx"]["quote_b64"]}}).encode()
    good = judged_beside(receipts[0], copy, attestation="tdx-quote")
    assert (step(good), Code.IMPORT_QUOTE_ELSEWHERE in good.counts) == ((1, 0, 0), False)
    other = judged_beside(receipts[0], receipts[1], attestation="tdx-quote")
    assert (step(other), other.counts[Code.IMPORT_QUOTE_ELSEWHERE]) == ((0, 0, 1), 1)
    bad = next(data for data in imported(World(root_key=99))[1].values() if b'"quote_b64"' in data)
    failed = judged_beside(bad, receipts[1], attestation="tdx-quote")
    assert (step(failed), failed.exit_code) == ((1, 1, 0), ExitCode.FALSE), "what is false stays so"


def test_beside_a_quote_that_holds_an_artifact_that_is_not_here_changes_nothing(imported: Any) -> None:
    _, blobs = imported()
    receipt = next(data for data in blobs.values() if b'"quote_b64"' in data)
    report = judged_beside(receipt, b"a log's text", here=False, attestation="tdx-quote")
    assert (step(report), Code.IMPORT_QUOTE_OPEN in report.counts) == ((1, 0, 0), False)


def test_an_artifact_that_is_not_here_may_carry_a_quote() -> None:
    report = judged_beside(b"{}", b"a log's text", here=False)
    assert (step(report), report.counts[Code.IMPORT_QUOTE_OPEN]) == ((0, 0, 1), 1)
    report = judged_beside(b"{}", b"a log", b"tdx", b'{"result":{"tdx":1}}', b"[\\u0074]", b"x" * ((1 << 22) + 1))
    assert (step(report), set(report.counts)) == ((0, 0, 0), set())
    escaped = judged_beside(b"{}", b'{"\\u0074dx":{"quote_b64":"AA=="}}')
    assert set(escaped.counts) == {Code.IMPORT_QUOTE_ELSEWHERE}
    long = judged_beside(b"{}", b"x" * ((1 << 22) + 1), here=False)
    assert step(long) == (0, 0, 0), "no receipt is that long"


def judged_as(data: bytes, **changes: Any) -> tuple[tuple[int, int, int], set[Code], str]:
    """What the step says of an import of these bytes."""
    digest = hashlib.sha256(data).hexdigest()
    artifact = {"name": "receipt.json", "sha256": digest, "size": len(data), "media_type": "application/json"}
    made = small_ledger(1)
    made.add("import", body(artifact, **changes), LOG)
    report = judged(made, {digest: data})
    return step(report), set(report.counts), next(r.detail for r in report.steps if r.name == "attestations")


def test_what_was_taken_back_is_not_looked_at(imported: Any) -> None:
    made, blobs = imported(World(root_key=99))
    made.add("key", key_body(LOG, "log", "revoke", revoked_from=5), ROOT)
    source = MemorySource(made.data, artifacts=blobs)
    assert step(check_log(source, TrustPolicy(ROOT.public, attestation=DEMANDS))) == (0, 0, 0)
