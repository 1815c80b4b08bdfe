"""Every field of every record that this family's logs are known to have: edited, and found, or bound by nothing.

The public log has :mod:`~tests.verify.polaris.test_real_fields`; this is the same for the shapes of its siblings
(:mod:`~tests.verify.polaris.longctx`). There is no third possibility: an edit that nobody notices is of a field that
the audit lists as carried by one record alone, and that stands in :data:`UNBOUND` with the reason.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from k3_ledger.verify.polaris import audit, parse_log
from k3_ledger.verify.polaris.advances import check_advances
from k3_ledger.verify.polaris.audit import check_receipt
from k3_ledger.verify.polaris.crosscheck import CrossChecks, Standing, check_run, generic
from k3_ledger.verify.polaris.derived import DerivedChecks
from k3_ledger.verify.polaris.folders import view
from tests.verify.polaris import longctx
from tests.verify.polaris.modes import MODES
from tests.verify.polaris.test_partners import another, leaves
from tests.verify.polaris.test_real_fields import LACKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.verify.polaris.cases import Files

RUN: Final = 1
"""The run that is edited, of three."""


class Edit(NamedTuple):
    record: str
    path: tuple[str, ...]
    old: Any
    files: Files


def value(old: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int | float):
        return old + 3 if isinstance(old, int) else old * 1.37 + 0.5
    if isinstance(old, list):
        return [*old, "other"]
    if not isinstance(old, str) or not old:
        return "something" if old == "" else 7.5
    return old.replace("2026-08", "2026-07") if old.startswith("2026-08") else another(old)


def changed(whole: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    for path, old in leaves(whole):
        if path:
            body = place = copy.deepcopy(whole)
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value(old)
            yield path, old, body


def edits(files: Files, folder: str) -> Iterator[Edit]:
    for name in ("receipt", "result", "attestation"):
        file = f"runs/{folder}/{name}.json"
        for path, old, body in changed(json.loads(files[file])) if file in files else ():
            yield Edit({"attestation": "attestation.json"}.get(name, name), path, old, files | {file: dump(body)})
    rows = json.loads(files["index.json"])
    at = next(at for at, row in enumerate(rows) if row["id"] == folder)
    for path, old, body in changed(rows[at]):
        yield Edit("index row", path, old, files | {"index.json": dump([*rows[:at], body, *rows[at + 1 :]])})
    lines = [json.loads(line) for line in files.get("ledger.jsonl", b"").splitlines()]
    at = next((at for at, line in enumerate(lines) if line["proof"].endswith(folder)), 0)
    for path, old, body in changed(lines[at]) if lines else ():
        for new in (body, body | {path[0]: None}):
            data = b"".join(dump(line) + b"\n" for line in (*lines[:at], new, *lines[at + 1 :]))
            yield Edit("frontier advance", path, old, files | {"ledger.jsonl": data})
    file = f"runs/{folder}/log.txt"
    for match in re.finditer(rb"(RESULT_JSON|POLARIS_ATTESTATION) (\{.*\})", files.get(file, b"")):
        record = "result in the log" if match[1] == b"RESULT_JSON" else "attestation in the log"
        for path, old, body in changed(json.loads(match[2])):
            data = files[file][: match.start(2)] + dump(body) + files[file][match.end(2) :]
            yield Edit(record, path, old, files | {file: data})


def dump(body: Any) -> bytes:
    return json.dumps(body).encode()


def found_in(files: Files) -> set[tuple[str, str]]:
    return {(f.code.name, f.message) for f in audit(files).findings if f.code.name != LACKS}


def standings(files: Files, folder: str) -> dict[str, set[Standing]]:
    """What the fields of one run's records, and of the advances, rest on."""
    log, cross = parse_log(files), CrossChecks()
    facts = view(log)
    for run in facts:
        if run.run.run_id == folder:
            check_run(run, check_receipt(run.run, ()), cross)
    found = [*check_advances(log, facts, DerivedChecks(0, []), cross)]
    assert all(finding.position.source == "ledger.jsonl" for finding in found)
    return {f"{record.value} {path}": set(counts) for (record, path), counts in cross.standings.items()}


LONG: Final = ("sealed", "attested", "printed", "logged", "bare")
SEALED: Final = ("sealed", *MODES)
FLAT: Final = ("attested", "bare")
"""Shapes without a result in the log text, where that of the file is the only one."""


class Row(NamedTuple):
    """Fields of a record that nothing is held against in these shapes, and why; ``#`` is any of the contexts."""

    record: str
    fields: str
    shapes: tuple[str, ...]
    why: str


CONTROLLER: Final = "what the controller says of itself and its machine; no other record has it"
UNSEALED: Final = "where there is a receipt it is sealed, or held against it; without one there is no other record"
NO_OTHER: Final = "no other record states it where there is no attestation and no log text"
GUARDED: Final = "what was measured of the other model; a result in the log text has it too, where there is one"
UNSCORED: Final = "of the model that was not scored nothing else is published; figures that follow are recomputed"
UNBOUND: Final = (
    Row("frontier advance", "author", LONG, "nothing else names whoever wrote the change"),
    Row("frontier advance", "commit", LONG, "the commit of the merge, which no run was measured at"),
    Row("receipt", "attestation_type", SEALED, "how it says that it was attested; what it is shows by what is in it"),
    Row("receipt", "tdx.collateral_b64", SEALED, "read for its dates alone, and with --trust-dir not at all"),
    Row("receipt", "tdx.cost_usd", SEALED, "what somebody paid"),
    Row("result", "baseline_tps", LONG, "of honest runs sometimes one speed, sometimes another"),
    Row("result", "gpu", (*LONG, *MODES), "names and places behind the kind of accelerator, which is held"),
    Row("result", "accuracy_ok", ("glimmer",), CONTROLLER),
    Row("result", "scored_dimension", ("qwen",), CONTROLLER),
    Row("result", "q36_guard_ok q36_guard_problems", ("glimmer", "qwen", "dspark"), CONTROLLER),
    Row("result", "main_ar_tps prefill_delta_pct", ("dspark",), "main has no partner, and a blank none"),
    Row(
        "result",
        "dflash_ctx.4096.delta_pct dflash_ctx.4096.main_dflash_tps dflash_ctx.4096.pr_dflash_tps",
        ("dflash",),
        "where main has no speed nothing follows",
    ),
    Row("result", "auto_close model_sha_pinned", FLAT, NO_OTHER),
    Row("result", "clock_mhz clock_spread_mhz clocks_pinned eval_mode eval_seed guard_#_pass", ("bare",), NO_OTHER),
    Row("result", "kl llama_commit reason regression_labels", ("bare",), NO_OTHER),
    Row("result", "best_context_label", ("bare",), "in another form it states no context"),
    Row("attestation.json", "code.build_hash verdict.guard_regression_labels", ("attested",), UNSEALED),
    Row("attestation.json", "references.guard_model_file references.model_file", ("attested",), UNSEALED),
    Row("attestation.json", "references.model_sha256", ("attested",), UNSEALED),
    Row("attestation.json", "environment.cuda_version environment.driver_version", ("attested",), CONTROLLER),
    Row("attestation.json", "environment.decode_tokens environment.pin_target_mhz", ("attested",), CONTROLLER),
    Row("attestation.json", "measurements.guard.ctx_#_tps measurements.guard.kl", ("attested",), GUARDED),
    Row("attestation.json", "measurements.guard.model", ("attested",), GUARDED),
    Row("attestation.json", "measurements.guard.accuracy_ok measurements.guard.speed_ok", ("attested",), GUARDED),
    Row("attestation in the log", "code.build_hash verdict.guard_regression_labels", ("printed",), UNSEALED),
    Row("attestation in the log", "references.guard_model_file references.model_file", ("printed",), UNSEALED),
    Row("attestation in the log", "references.model_sha256", ("printed",), UNSEALED),
    Row("attestation in the log", "environment.cuda_version environment.driver_version", ("printed",), CONTROLLER),
    Row("result in the log", "mode", LONG[:1] + LONG[2:4], CONTROLLER),
    Row("result in the log", "model", ("logged",), "an attestation has it too, where there is one"),
    Row(
        "result in the log",
        "score_qwen36.model score_qwen36.regression_labels",
        LONG[:1] + LONG[2:4],
        "of one model here, and of both around it",
    ),
    *(
        Row("result in the log", f"score_qwen35.{name}", LONG[:1] + LONG[2:4], UNSCORED)
        for name in (
            *("auto_close", "best_context_label", "clock_mhz", "clock_spread_mhz", "clocks_pinned", "decode_tokens"),
            *("eval_mode", "guard_#_pass", "kl", "llama_commit", "model", "model_sha_pinned", "pass", "pin_target_mhz"),
            *("regression_labels", "score_context"),
        )
    ),
)
"""Fields that are held against nothing. Whatever is not here is found where it is edited."""


def unbound(shape: str) -> set[str]:
    """Names of the fields of :data:`UNBOUND` that a shape has."""
    fields = {f"{row.record} {name}" for row in UNBOUND if shape in row.shapes for name in row.fields.split()}
    contexts = {name: longctx.CONTEXTS if "guard_#" in name else longctx.CONTEXTS.values() for name in fields}
    return {name.replace("#", str(context)) for name in fields for context in contexts[name]}


@pytest.mark.parametrize("shape", longctx.SHAPES)
def test_a_log_of_the_shape_is_held_against_nobody(shape: str) -> None:
    report = audit(longctx.build(longctx.draft(shape)))
    assert [f.message for f in report.findings if f.severity.value == "error"] == []
    assert report.failed == 0


@pytest.mark.parametrize("shape", longctx.SHAPES)
def test_every_field_that_is_edited_is_found_or_bound_by_nothing(shape: str) -> None:
    log = longctx.draft(shape)
    folder = log.runs[RUN].folder
    assert folder is not None
    files = longctx.build(log)
    whole = found_in(files)
    unnoticed: set[str] = set()
    for edit in edits(files, folder):
        if found_in(edit.files) <= whole:
            name = f"{edit.record} {'.'.join(edit.path)}"
            assert standings(edit.files, folder)[generic(name)] == {Standing.ALONE}, name
            unnoticed.add(name)
    assert unnoticed == unbound(shape)
