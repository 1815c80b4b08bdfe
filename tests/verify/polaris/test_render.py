"""The report as text and as JSON: complete, and harmless on a terminal."""

from __future__ import annotations

import json
from typing import Any

from k3_ledger.schemas.printable import printable
from k3_ledger.verify.polaris import audit, render
from tests.verify.polaris import make_log
from tests.verify.polaris.cases import CASES, edit, path_of


def lines(files: dict[str, bytes], *, verbose: bool = False) -> list[str]:
    return list(render(audit(files), verbose=verbose))


def test_a_whole_log_is_told_in_counts() -> None:
    text = lines(make_log.build(make_log.draft()))
    assert "findings by kind" not in text
    counted = "digests, fields and figures: checked 579, failed 0, could not be checked 9"
    assert text[-2:] == [counted, "findings: 0 errors, 0 warnings, 0 notes"]
    assert any(line.split() == ["receipt_id", "3", "0", "0"] for line in text)
    assert any("needs Intel's certificates" in line for line in text)
    unbound = text[text.index("fields that nothing binds, by record") :]
    assert any(line.startswith("  receipt (") for line in unbound)
    assert not any("sealed output" in line for line in unbound)


def test_verbose_shows_every_finding_and_every_field() -> None:
    log = make_log.draft()
    for run in log.runs:
        run.attestation["environment"]["clocks_pinned"] = False
    files = make_log.build(log)
    shown = [line for line in lines(files) if "clocks_pinned is false" in line]
    every = lines(files, verbose=True)
    assert len(shown) == 1
    assert len([line for line in every if "clocks_pinned is false" in line]) == 3
    assert any(line.startswith("  receipt attestation.code.repo: alone 3") for line in every)
    assert any("K3L-FOREIGN-CLOCKS-UNPINNED" in line and line.endswith("in 3 runs") for line in every)


def test_a_kind_of_finding_says_once_what_to_do_about_it() -> None:
    log = make_log.draft()
    for run in log.runs:
        run.attestation["environment"]["clocks_pinned"] = False
    report = audit(make_log.build(log))
    assert report.kinds
    for verbose in (False, True):
        text = " ".join(line.strip() for line in render(report, verbose=verbose))
        assert [text.count(f"hint: {row.first.advice}") for row in report.kinds] == [1] * len(report.kinds)
        assert text.count("hint: ") == len(report.kinds)
    kinds: Any = report.as_dict()["kinds"]
    assert [row["hint"] for row in kinds] == [row.first.advice for row in report.kinds]


def test_blank_fields_and_missing_figures_are_counted() -> None:
    log = make_log.draft()
    log.runs[0].attestation["verdict"]["score_context"] = None
    assert log.runs[0].result is not None
    del log.runs[0].result["clock_tps"]
    text = lines(make_log.build(log))
    assert any("pairs of fields of which one is blank" in line for line in text)
    assert any(line.split() == ["1", "clock", "reading"] for line in text)
    assert any("in 1 run" in line and not line.endswith("in 1 runs") for line in text)


def test_a_log_without_receipts_has_no_table_of_digests() -> None:
    text = lines({"runs/a/log.txt": b"nothing"})
    assert "digests and signatures" not in text
    assert not any(line.startswith("fields that nothing binds") for line in text) or text


def test_fields_of_an_advance_are_listed_as_bound_by_nothing() -> None:
    text = lines({"ledger.jsonl": b'{"new_frontier": 1.0}\n'})
    at = text.index("  frontier advance (1)")
    assert text[at + 1].strip() == "new_frontier"


def test_a_log_cannot_write_on_the_terminal() -> None:
    files = make_log.build(make_log.draft())
    edit(files, path_of(files, 1, "result.json"), lambda body: body.update(label="\x1b[2J\x07\u202epass\n"))
    for verbose in (False, True):
        for line in lines(files, verbose=verbose):
            assert line.isprintable()
    assert printable("a\x1b[0m\nb\u202ec\udc80 é…") == "a\\x1b[0m\\nb\\u202ec\\udc80 é…"


def test_lines_of_running_text_are_wrapped() -> None:
    for case in CASES[::12]:
        for line in lines(case.files()):
            assert len(line) <= 118 or " " not in line.strip() or line.startswith(("  ", "       -"))


def test_the_json_report_holds_everything() -> None:
    files = make_log.build(make_log.draft())
    edit(files, path_of(files, 1, "result.json"), lambda body: body.update(label="\x1b[2J"))
    report = audit(files)
    value = json.loads(json.dumps(report.as_dict()))
    assert (value["schema"], value["exit_code"]) == ("k3-ledger/audit/1", 1)
    assert value["counts"] == {
        "checked": report.checked,
        "failed": report.failed,
        "not_checked": report.not_checked,
    }
    assert len(value["findings"]) == len(report.findings)
    assert sum(row["count"] for row in value["kinds"]) == len(report.findings)
    assert {row["field"]: row["verified"] for row in value["hashes"]}["tdx.result_sha256"] == 3
    assert value["hashes"][3]["verified_as"] or value["hashes"][3]["not_checked_because"] is not None
    assert all(set(row) >= {"record", "path"} for row in value["fields"])
    assert len(value["beyond_this_audit"]) == 4
