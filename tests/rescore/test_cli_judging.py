"""``rescore``, ``reconcile`` and ``claims check`` as a person runs them."""

from __future__ import annotations

import re
import runpy
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.rescore.sealing import rule_body
from tests.ledgers import JUDGE, LOG, RUNNER, small_ledger
from tests.ledgers import ROOT as ROOT_KEY
from tests.rescore.receipts import DECODE, PREFILL, house_ledger, pin_body, receipt
from tests.support import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done
    from tests.ledgers import Builder

PINS = f"""[[pin]]
slot = "frontier:{DECODE}"
value = 45
unit = "tok/s"
source = "SOURCE"
"""


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """A house ledger on disk."""
    builder, _ = house_ledger()
    folder = tmp_path / "book"
    folder.mkdir()
    return builder.write(folder)


def invented(folder: Path, role: str, decode: int) -> None:
    """A bundle of invented figures in ``folder/role``."""
    old, sys.argv = sys.argv, ["invented.py", str(folder / role), role, str(decode), "500"]
    try:
        runpy.run_path(str(ROOT / "docs" / "examples" / "invented.py"), run_name="__main__")
    finally:
        sys.argv = old


@pytest.fixture
def real(test_data: Callable[..., Path]) -> Path:
    return test_data("data", "sparkinfer-k3-log")


# ------------------------------------------------------------------------------------------------------ rescore


def test_all_51_receipts_of_the_real_log_reproduce(command: Callable[..., Done], real: Path) -> None:
    done = command("rescore", real, "--rule", "in-force", "--processes", "1")
    assert done.code == 0
    assert done.out.startswith("51 runs of a foreign log, audited and not sealed: 51 unchanged, 0 lower, 0 higher")


def test_the_nine_runs_are_shown_with_what_bound(command: Callable[..., Done], real: Path) -> None:
    done = command("rescore", real, "--rule", "v0.2.1")
    assert "35 unchanged, 9 lower, 0 higher, 7 not scorable" in done.out
    (row,) = [line for line in done.out.splitlines() if line.startswith("f505cfb0")]
    assert row.split()[:9] == ["f505cfb0", "#86", "decode@131072", "25.36", "22.12", "receipt", "14.65", "14.6", "XL"]
    assert "anchor 19.4 % -> cap 14.6 %" in row
    assert "  4 not scorable: the rule scores decode@131072, the run measured decode@64" in done.out


def test_a_metric_that_nobody_measured_is_a_typo(command: Callable[..., Done], real: Path) -> None:
    done = command("rescore", real, "--rule", "v0.2.1", "--metric", "prefil")
    assert (done.code, done.out) == (2, "")
    assert "no run measures 'prefil', only decode, prefill" in done.err


def test_what_cannot_be_sealed_into_is_refused_before_anything_is_said(
    command: Callable[..., Done], real: Path
) -> None:
    done = command("rescore", real, "--rule", "v0.2.1", "--seal", "judge.pem")
    assert (done.code, done.out) == (2, "")
    assert "import the log first" in done.err


def test_what_only_a_rounds_log_tells_is_named_in_the_steps(command: Callable[..., Done], real: Path) -> None:
    document = command("rescore", real, "--rule", "v0.2.1", "--pr", "115", "--json").json
    (steps,) = [
        gate["steps"]
        for run in document["runs"]
        for gate in run["gates"]
        if gate["gate"] == "ratchet" and run["run"].startswith("87a834ea")
    ]
    assert steps["depth"] == "2048"
    assert steps["frontier_kl_source"] == "the round's log"


@pytest.mark.parametrize(("pins", "count"), [("own", 10), ("tag", 9)])
def test_two_rules_are_compared(command: Callable[..., Done], real: Path, pins: str, count: int) -> None:
    document = command("rescore", real, "--rule", "v0.2.1", "--against", "v0.2.0", "--pins", pins, "--json").json
    assert (document["counts"]["lower"], document["counts"]["higher"]) == (count, 0)
    assert len(document["runs"]) == 51


@pytest.mark.parametrize("rule", ["in-force", "v0.2.1", "v0.2.2"])
def test_a_rule_is_compared_with_the_one_in_force(command: Callable[..., Done], real: Path, rule: str) -> None:
    """The 51 published tiers are those of the rule in force, so that either comparison comes to the same."""
    counts, before = {}, {}
    for against in ("published", "in-force"):
        document = command("rescore", real, "--rule", rule, "--against", against, "--json").json
        counts[against] = document["counts"]
        before[against] = [(run["run"], run["before"]) for run in document["runs"]]
        assert document["against"] == against
    assert counts["in-force"] == counts["published"]
    assert before["in-force"] == before["published"]


def test_a_run_of_a_ledger_is_compared_with_the_rule_that_it_had_published(
    command: Callable[..., Done], book: Path, tmp_path: Path
) -> None:
    builder, _ = house_ledger()
    builder.add("rule", rule_body(find_rule("house-1.decode")), JUDGE)
    builder.add("run", receipt(66.0, 500.0), RUNNER)
    (tmp_path / "ruled").mkdir()
    ruled = builder.write(tmp_path / "ruled")
    asked = ("rescore", ruled, "--rule", "v0.2.1", "--metric", "decode", "--json", "--against")
    first = [run["before"] for run in command(*asked, "in-force").json["runs"]]
    assert first == [None, "XL"]  # the rule was published between the two, and no verdict was
    assert [run["before"] for run in command(*asked, "published").json["runs"]] == [None, None]
    alone = command("rescore", book, "--rule", "house-1.decode", "--against", "in-force", "--metric", "decode").out
    assert alone.startswith("1 runs of a verified ledger: 0 unchanged, 0 lower, 0 higher, 1 judged for the first time")
    misspelt = command("rescore", book, "--rule", "house-1.decode", "--against", "in-forc")
    assert "did you mean in-force?" in misspelt.err


def test_a_foreign_log_cannot_be_sealed_into(command: Callable[..., Done], real: Path, tmp_path: Path) -> None:
    done = command("rescore", real, "--rule", "v0.2.1", "--seal", tmp_path / "judge.pem")
    assert done.code == 2
    assert "import the log first" in done.err


def test_a_native_ledger_is_verified_and_judged(command: Callable[..., Done], book: Path) -> None:
    done = command("rescore", book, "--rule", "house-1.decode", "--all", "--processes", "1")
    assert done.code == 0
    (row,) = [line.split() for line in done.out.splitlines() if "decode@131072   60.00" in line]
    assert [*row[3:6], *row[7:12]] == ["60.00", "50.00", "receipt", "20.00", "20.0", "-", "XL", "gain"]
    assert "2 metrics of 1 runs of a verified ledger" in done.out
    assert "1 judged for the first time" in done.out


def test_a_ledger_that_does_not_verify_is_not_judged(command: Callable[..., Done], book: Path) -> None:
    log = book / "ledger.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"decode"', b'"dec0de"', 1))
    done = command("rescore", book, "--rule", "house-1.decode", "--processes", "1")
    assert done.code == 1
    assert "error:" in done.err


def test_pins_of_a_file_and_a_rule_of_ones_own(command: Callable[..., Done], book: Path, tmp_path: Path) -> None:
    (tmp_path / "pins.toml").write_text(PINS.replace("SOURCE", "a" * 64))
    (tmp_path / "mine.toml").write_text(command("rules", "show", "house-1.decode", "--toml").out)
    done = command("rescore", book, "--rule", "mine.toml", "--pins", "pins.toml", "--json")
    (run, other) = done.json["runs"]
    assert run["verdict"]["pins"][0]["source"] == "file"
    assert {"name": "gain", "value": "1/3"} in run["verdict"]["steps"]
    assert [gate["outcome"] for gate in run["gates"]] == ["pass"] * 7
    steps = {gate["gate"]: gate["steps"] for gate in run["gates"]}
    assert (steps["clock"]["clock_tokens"], steps["guard"]["guard_floor"]) == ("2048", "445.5")
    assert (other["verdict"], other["gates"]) == (None, [])
    assert {found["code"] for found in done.json["pins_found"]} == {"K3L-PIN-UNSOURCED"}


@pytest.mark.parametrize("source", ["", 'source = "' + "a" * 64 + '"\n', "own"])
def test_pins_of_a_file_that_no_source_bears_out_are_told(
    command: Callable[..., Done], real: Path, tmp_path: Path, source: str
) -> None:
    """They are judged by, since whoever asks may suppose a number; that nobody measured it is said."""
    own = 'source = "8641ae28987a4f8fdcc896dbe5443cd5"\n'
    words = '[[pin]]\nslot = "frontier:decode@131072/Kimi-K3/UD-IQ1_S/h200x8"\nvalue = VALUE\nunit = "tok/s"\n'
    pins = tmp_path / "ns.toml"
    pins.write_text(words.replace("VALUE", "30") + (own if source == "own" else source))
    judged = ("rescore", real, "--rule", "v0.2.1", "--pr", "115", "--pins", pins)
    done, machine = command(*judged), command(*judged, "--json")
    code = "K3L-PIN-HAND-EDITED" if source == "own" else "K3L-PIN-UNSOURCED"
    for each in (done, machine):
        assert each.code == 0
        assert each.err.count(f"[{code}]") == 1
        assert "ns.toml, line 1" in each.err
    assert [found["code"] for found in machine.json["pins_found"]] == [code]
    assert "file" in done.out
    pins.write_text(words.replace("VALUE", "56.82") + own)
    sound = command(*judged, "--json")
    assert (sound.json["pins_found"], "K3L-PIN" in sound.err) == ([], False)
    assert command(*judged[:-1], "own", "--json").json["pins_found"] == []


def test_verdicts_are_sealed_once(command: Callable[..., Done], tmp_path: Path) -> None:
    command("keygen", "root.pem", "log.pem", "runner.pem", "judge.pem")
    roles = [word for role in ("log", "runner", "judge") for word in ("--enrol", f"{role}={role}.pub.pem")]
    assert command("init", "own", "--origin", "example.org/x", "--key", "root.pem", *roles).code == 0
    for role, decode in (("reference", 40), ("frontier", 50), ("candidate", 60)):
        invented(tmp_path, role, decode)
        assert command("seal", role, "--ledger", "own", "--key", "runner.pem").code == 0
    words = ("rescore", "own", "--rule", "house-1.decode", "--seal", "judge.pem", "--root-key", "root.pub.pem")
    command("checkpoint", "--ledger", "own", "--key", "log.pem")
    assert command(*words).err == "1 verdicts sealed, 0 were there already\n"
    command("checkpoint", "--ledger", "own", "--key", "log.pem")
    again = command(*words)
    assert again.err == "0 verdicts sealed, 1 were there already\n"
    assert "1 unchanged" in again.out
    assert command("verify", "own", "--processes", "1").code == 0
    assert command("rescore", "own", "--rule", "house-1.decode", "--seal", "runner.pem").code == 1
    assert command("rescore", "own", "--rule", "house-1.prefill", "--seal", "runner.pem").code == 1


RESCORED = """[[claim]]
id = "nine"
says = "v0.2.1 lowers nine"
kind = "rescored"
rule = "v0.2.1"
pins = "own"
change = "lower"
count = 9
"""


def test_sealing_what_was_judged_again_leaves_what_was_published(
    command: Callable[..., Done], real: Path, tmp_path: Path
) -> None:
    command("keygen", "root.pem", "log.pem", "judge.pem", "other.pem")
    roles = ["--enrol", "log=log.pub.pem", "--enrol", "judge=judge.pub.pem", "--enrol", "judge=other.pub.pem"]
    assert command("init", "led", "--origin", "example.org/x", "--key", "root.pem", *roles).code == 0
    assert command("import", "polaris", real, "--into", "led", "--key", "log.pem").code == 0
    (tmp_path / "claims.toml").write_text(RESCORED)
    judge = ("rescore", "led", "--rule", "v0.2.1", "--processes", "1")
    added = [
        command(*judge, "--pins", pins, "--seal", key).err.split()[0]
        for key, pins in (
            ("judge.pem", "own"), ("judge.pem", "tag"), ("judge.pem", "own"),
            ("other.pem", "tag"), ("other.pem", "own"),
        )
    ]  # fmt: skip
    assert added[0] == "44"
    assert int(added[1]) > 0
    assert added[2:] == ["0", "0", "0"]
    assert "35 unchanged, 9 lower, 0 higher, 7 not scorable" in command(*judge).out
    assert command("rescore", "led", "--rule", "in-force", "--processes", "1").out.count("51 unchanged") == 1
    checked = command("claims", "check", "claims.toml", "--against", "led", "--processes", "1")
    assert (checked.code, "nine: supported" in checked.out) == (0, True)
    assert command("verify", "led", "--processes", "1").code == 0


def test_a_long_ledger_can_be_counted(command: Callable[..., Done], book: Path, real: Path) -> None:
    words = ("rescore", book, "--rule", "house-1.decode", "--counts", "--processes", "1")
    assert command(*words).out == (
        "        1 XL\n        1 not scorable\n2 metrics of runs under house-1.decode; against published: 1 first\n"
    )
    assert command(*words, "--json").json["tiers"] == {"not scorable": 1, "XL": 1}
    for more in (("--pins", "tag"), ("--all",), ("--metric", "decode")):
        assert command(*words, *more).code == 2
    assert command("rescore", book, "--rule", "in-force", "--counts").code == 2
    assert command("rescore", real, "--rule", "v0.2.1", "--counts").code == 2


def imported(builder: Builder, count: int) -> None:
    for number in range(count):
        artifact = {"name": "receipt.json", "sha256": f"{number:064x}", "size": 2, "media_type": "application/json"}
        body = {
            "format": "polaris/1", "foreign_id": f"run-{number}", "original_sha256": artifact["sha256"],
            "attestation": "none", "fields": [], "findings": [], "artifacts": [artifact],
        }  # fmt: skip
        builder.add("import", body, LOG)


def test_imports_are_not_counted_in_silence(command: Callable[..., Done], tmp_path: Path) -> None:
    words = ("rescore", ".", "--rule", "house-1.decode", "--counts", "--processes", "1")
    builder = small_ledger(0)
    imported(builder, 2)
    builder.write(tmp_path)
    done = command(*words)
    assert (done.code, done.out) == (2, "")
    assert "counts native receipts, and this ledger holds 2 imports and none of these: leave --counts out" in done.err
    assert command(*(word for word in words if word != "--counts")).code == 0
    mixed, _ = house_ledger()
    imported(mixed, 3)
    mixed.write(tmp_path)
    done = command(*words, "--root-key", ROOT_KEY.public.hex())
    assert (done.code, done.err) == (0, "note: 3 imports are not counted: leave --counts out to judge them too\n")
    assert "2 metrics of runs" in done.out
    assert command(*words, "--json").json["imports_not_counted"] == 3


def test_counting_names_what_changed(command: Callable[..., Done], tmp_path: Path) -> None:
    from tests.rescore.test_judgements import STRICT, sealed
    from tests.rescore.test_replay import rule_body

    builder, body = sealed(rule=STRICT)
    assert body["tier"] == "L"
    builder.add("rule", rule_body(STRICT), JUDGE)
    builder.add("verdict", body, JUDGE)
    builder.write(tmp_path)
    done = command("rescore", ".", "--rule", "house-1.decode", "--counts", "--processes", "1")
    assert "against published: 1 higher\n  entry 8: L -> XL\n" in done.out


BELIEVERS = (
    ("rescore", "forged", "--rule", "house-1.decode"),
    ("rescore", "forged", "--rule", "in-force", "--json"),
    ("rescore", "forged", "--rule", "house-1.decode", "--counts"),
    ("rescore", "forged", "--rule", "house-1.decode", "--seal", "gone.pem"),
    ("reconcile", "forged"),
    ("reconcile", "forged", "--pins", "pins.toml", "--write"),
    ("frontier", "forged"),
    ("claims", "check", "claims.toml", "--against", "forged"),
)


def forge(what: str, folder: Path) -> None:
    """A ledger whose judge signed something that does not follow."""
    from tests.rescore.test_judgements import STRICT, sealed
    from tests.rescore.test_replay import rule_body

    builder, body = sealed()
    source = builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    kind, forged = {
        "tier": ("verdict", {**body, "tier": "REJECT"}),
        "steps": ("verdict", {**body, "steps": [{"name": "gain", "value": "0.3"}]}),
        "pins": ("verdict", {**body, "pins": body["pins"][1:]}),
        "target": ("verdict", {**body, "metric": "append"}),
        "value": ("pin", pin_body(f"frontier:{DECODE}", "70", source)),
        "role": ("pin", pin_body(f"reference:{DECODE}", "50", source)),
        "zero": ("pin", pin_body(f"frontier:{DECODE}", "0", source)),
        "name": ("rule", rule_body(replace(STRICT, name="house-1.decode"))),
    }[what]
    builder.add(kind, forged, JUDGE)
    folder.mkdir()
    builder.write(folder)


@pytest.mark.parametrize("words", BELIEVERS, ids=" ".join)
@pytest.mark.parametrize("what", ["tier", "steps", "pins", "target", "value", "role", "zero", "name"])
def test_what_verify_refuses_is_believed_by_no_command(
    command: Callable[..., Done], tmp_path: Path, what: str, words: tuple[str, ...]
) -> None:
    forge(what, tmp_path / "forged")
    (tmp_path / "claims.toml").write_text(CLAIM)
    pins = tmp_path / "pins.toml"
    pins.write_text(PINS.replace("SOURCE", "a" * 64))
    verified = command("verify", "forged", "--processes", "1", "--json")
    (code,) = [finding["code"] for finding in verified.json["findings"] if finding["severity"] == "error"]
    done = command(*words, "--processes", "1")
    assert (verified.code, done.code, done.out) == (1, 1, "")
    assert f"[{code}]" in done.err
    assert "45" in pins.read_text()


def test_what_could_not_be_derived_again_is_said(command: Callable[..., Done], tmp_path: Path) -> None:
    from tests.rescore.test_judgements import sealed

    builder, body = sealed()
    builder.add("verdict", {**body, "rule": "yours", "rule_sha256": "0" * 64}, JUDGE)
    builder.write(tmp_path)
    done = command("rescore", ".", "--rule", "house-1.decode", "--processes", "1")
    assert (done.code, "K3L-VERDICT-UNKNOWN-RULE" in done.err) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--rule", "v9"), 2, "no rule is named 'v9'"),
        (("--rule", "v0.2.1", "--since", "monday"), 2, "is not a moment such as"),
        (("--rule", "v0.2.1", "--against", "v9"), 2, "no rule is named 'v9'"),
        (("--rule", "v0.2.1", "--pins", "gone.toml"), 3, "gone.toml"),
        ((), 2, "Missing option"),
    ],
)
def test_bad_input_of_rescore_is_named(
    command: Callable[..., Done], book: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    done = command("rescore", book, *words)
    assert done.code == code
    assert says in done.err


def test_a_span_of_time_selects_runs(command: Callable[..., Done], book: Path) -> None:
    def count(*words: str) -> int:
        return len(command("rescore", book, "--rule", "house-1.decode", "--json", *words).json["runs"])

    assert count("--since", "2026-01-01") == 2
    assert count("--until", "2025-12-31T23:59:59Z") == 0
    assert count("--metric", "prefill") == 1


@pytest.mark.parametrize("path", ["gone", "."])
def test_what_is_no_history_is_refused(command: Callable[..., Done], path: str) -> None:
    assert command("rescore", path, "--rule", "v0.2.1").code == 3


def test_a_folder_of_runs_without_a_public_line_is_a_foreign_log(command: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "log" / "runs").mkdir(parents=True)
    done = command("rescore", "log", "--rule", "v0.2.1")
    assert done.code == 3
    assert "K3L-FOREIGN" in done.err or "K3L-NOT" in done.err


def test_verify_derives_sealed_verdicts_again(command: Callable[..., Done], tmp_path: Path) -> None:
    from tests.rescore.test_judgements import sealed

    builder, body = sealed()
    builder.add("verdict", body, JUDGE)
    folder = tmp_path / "judged"
    folder.mkdir()
    builder.write(folder)
    (tmp_path / "trust.toml").write_text('require = ["verdicts", "pins"]\n')
    done = command("verify", folder, "--processes", "1", "--trust", "trust.toml")
    assert done.code == 0
    assert "11 verdicts     pass         1 checked; 1 derived again" in done.out
    assert "12 pins         pass         2 checked; 2 traced to the entry they were measured in" in done.out
    builder.add("verdict", {**body, "tier": "L"}, JUDGE)
    builder.write(folder)
    forged = command("verify", folder, "--processes", "1")
    assert forged.code == 1
    assert "entry 10, line 11, body.tier: tier does not follow from the rule [K3L-VERDICT-MISMATCH]" in forged.out
    assert "  expected: XL\n  found: L\n" in forged.out


def test_a_demand_for_verdicts_is_not_met_by_a_ledger_without_any(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, _ = house_ledger()
    builder.lines = builder.lines[:6]
    builder.write(tmp_path)
    done = command("verify", tmp_path, "--processes", "1", "--require", "verdicts")
    assert done.code == 4
    assert "required steps: verdicts" in done.out
    builder.lines[5] = builder.lines[5].replace(b"decode", b"dec0de")
    builder.write(tmp_path)
    damaged = command("verify", tmp_path, "--processes", "1", "--require", "verdicts")
    assert damaged.code == 1
    assert "required steps: verdicts" in damaged.out


def test_a_run_that_cannot_be_read_is_named(command: Callable[..., Done], real: Path, tmp_path: Path) -> None:
    import shutil

    log = tmp_path / "log"
    name = "70e6a00a"
    (run,) = (real / "runs").glob(f"{name}*")
    shutil.copytree(run, log / "runs" / run.name, copy_function=shutil.copyfile)
    result = log / "runs" / run.name / "result.json"
    result.write_text(result.read_text().replace('"frontier_tps": 35.63', '"frontier_tps": "fast"'))
    receipt_ = log / "runs" / run.name / "receipt.json"
    receipt_.write_text(receipt_.read_text().replace('"stdout_b64": "', '"stdout_b64": "e30', 1))
    done = command("rescore", log, "--rule", "in-force")
    assert done.code == 3
    assert f"not read: runs/{run.name}/result.json, line " in done.err
    assert "frontier_tps: 'fast' is not a decimal number" in done.err


# ---------------------------------------------------------------------------------------------------- reconcile


def test_fresh_pins_are_exit_0(command: Callable[..., Done], book: Path) -> None:
    done = command("reconcile", book, "--processes", "1")
    assert done.code == 0
    assert f"frontier:{DECODE}" in done.out
    assert "2 pins, 0 more than 10 % behind, 0 of them explained; 0 errors" in done.out


def test_stale_pins_are_exit_1_and_can_be_raised(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, names = house_ledger()
    builder.add("run", receipt(50.0, 450.0, role="frontier"), RUNNER)
    book = tmp_path / "plain"
    book.mkdir()
    builder.lines = builder.lines[:6]
    builder.write(book)
    pins = tmp_path / "pins.toml"
    pins.write_text("# ours\n" + PINS.replace("SOURCE", names["frontier"]))
    done = command("reconcile", book, "--pins", "pins.toml", "--write")
    assert done.code == 1
    assert "45 -> 50.00 (+11.1 %), nothing explains it [K3L-PIN-STALE]" in done.out
    assert f"raised frontier:{DECODE} to 50" in done.out
    assert pins.read_text().startswith("# ours\n")
    again = command("reconcile", book, "--pins", "pins.toml", "--write", "--json")
    assert (again.code, again.json["written"], again.json["findings"]) == (0, [], [])
    assert again.json["pins"][0]["decision"] == "agree"


def test_a_winner_explains_drift_unless_told_otherwise(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, names = house_ledger()
    builder.add(
        "merge",
        {
            "pull_request": 7,
            "commit": "c" * 40,
            "run": names["candidate"],
            "claimed": None,
            "slot": f"frontier:{DECODE}",
        },
        JUDGE,
    )
    builder.add("run", receipt(59.0, 450.0, role="frontier", round_="r2"), RUNNER)
    folder = tmp_path / "merged"
    folder.mkdir()
    builder.write(folder)
    done = command("reconcile", folder)
    assert done.code == 0
    assert "50 -> 59.00 (+18.0 %), #7 landed at 60; -1.7 % unexplained [K3L-PIN-EXPLAINED]" in done.out
    assert "1 more than 10 % behind, 1 of them explained" in done.out
    assert command("reconcile", folder, "--strict").code == 1
    assert command("reconcile", folder, "--bare").code == 1
    assert command("reconcile", folder, "--bare", "--threshold", "18%").code == 0
    assert command("reconcile", folder, "--bare", "--threshold", "0.18").code == 0


def test_winners_of_a_file(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, names = house_ledger()
    builder.add("run", receipt(59.0, 450.0, role="frontier", round_="r2"), RUNNER)
    folder = tmp_path / "merged"
    folder.mkdir()
    builder.write(folder)
    merge = f'[[merge]]\ntrack = "{DECODE}"\npull_request = 7\ntime = 2026-01-01T00:00:09Z\n'
    (tmp_path / "merges.toml").write_text(merge + f'run = "{names["candidate"]}"\n')
    assert command("reconcile", folder, "--merges", "merges.toml").code == 0
    (tmp_path / "merges.toml").write_text(merge + "claimed = 60\n")
    assert command("reconcile", folder, "--merges", "merges.toml").code == 0
    assert command("reconcile", folder, "--merges", "merges.toml", "--sealed-only").code == 1


def test_a_ledger_without_pins_says_so(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, _ = house_ledger()
    builder.lines = builder.lines[:6]
    builder.write(tmp_path)
    done = command("reconcile", ".")
    assert done.code == 0
    assert done.out == "no pins\nnothing was compared: there is no pin entry that stands, and --pins names no value\n"


REAL_PIN = """[[pin]]
slot = "{role}:decode@131072/Kimi-K3/UD-IQ1_S/h200x8"
value = {value}
unit = "tok/s"
"""


def test_a_reference_of_a_log_that_never_measured_it_is_left_alone(
    command: Callable[..., Done], real: Path, tmp_path: Path
) -> None:
    pins = tmp_path / "pins.toml"
    text = REAL_PIN.format(role="reference", value="18.4435")
    pins.write_text(text)
    done = command("reconcile", real, "--pins", "pins.toml", "--write", "--json")
    (row,) = done.json["pins"]
    assert (row["decision"], row["measured"], row["proposal"], done.json["written"]) == (
        "no-measurement",
        None,
        None,
        [],
    )
    assert [finding["code"] for finding in done.json["findings"]] == ["K3L-PIN-UNSOURCED", "K3L-PIN-UNMEASURED"]
    assert pins.read_text() == text


def test_a_right_pin_is_not_alarmed_by_what_was_read_before_its_winner(
    command: Callable[..., Done], real: Path, tmp_path: Path
) -> None:
    more = 'source = "8641ae28987a4f8fdcc896dbe5443cd5"\ntime = 2026-08-05T03:03:59Z\n'
    (tmp_path / "pins.toml").write_text(REAL_PIN.format(role="frontier", value="56.82") + more)
    done = command("reconcile", real, "--pins", "pins.toml", "--json")
    assert (done.code, done.json["findings"], done.json["pins"][0]["decision"]) == (0, [], "raise")


def test_a_native_reference_is_raised_from_the_other_engines_receipt_alone(
    command: Callable[..., Done], tmp_path: Path
) -> None:
    builder, names = house_ledger()
    newest = builder.add("run", receipt(46.0, 300.0, role="reference"), RUNNER)
    builder.write(tmp_path)
    pins = tmp_path / "pins.toml"
    pins.write_text(PINS.replace("frontier:", "reference:").replace("45", "40").replace("SOURCE", names["reference"]))
    done = command("reconcile", ".", "--pins", "pins.toml", "--write", "--json")
    (row,) = [row for row in done.json["pins"] if row["slot"] == f"reference:{DECODE}"]
    assert (row["decision"], row["measured"], row["receipt"]) == ("stale", "46", newest)
    assert f'source = "{newest}"' in pins.read_text()


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--write",), 2, "there is no pins file to write"),
        (("--threshold", "ten"), 2, "is not a decimal number"),
        (("--threshold", "0"), 2, "a threshold is above 0"),
        (("--pins", "gone.toml"), 3, "gone.toml"),
    ],
)
def test_bad_input_of_reconcile_is_named(
    command: Callable[..., Done], book: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    done = command("reconcile", book, *words)
    assert done.code == code
    assert says in done.err


# ------------------------------------------------------------------------------------------------------- claims

CLAIM = f"""[[claim]]
id = "speed"
says = "60 tokens a second, 1.5 times the other engine"
kind = "speed"
track = "{DECODE}"
value = 60.0
tolerance = "rounding"
ratio = 1.5
against = "reference"
"""


def test_a_supported_claim_comes_with_its_proof(command: Callable[..., Done], book: Path, tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(CLAIM)
    done = command("claims", "check", "claims.toml", "--against", "book", "--processes", "1")
    assert done.code == 0
    assert done.out.startswith("speed: supported: 60 tokens a second")
    assert "  proof: k3-ledger prove 8 --ledger book\n" in done.out
    assert done.out.endswith("1 claims: 1 supported\n")
    assert command("prove", "8", "--ledger", "book").code == 0


def test_a_claim_that_is_not_so_is_exit_1(command: Callable[..., Done], book: Path, tmp_path: Path) -> None:
    inflated = CLAIM.replace("ratio = 1.5", "ratio = 1.6")
    (tmp_path / "README.md").write_text(f"# Speed\n\n```toml claims\n{inflated}```\n")
    done = command("claims", "check", "README.md", "--against", book, "--json")
    assert done.code == 1
    (decision,) = done.json
    assert (decision["claim"], decision["status"]) == ("speed", "contradicted")
    assert decision["parts"][1]["evidence"][0]["value"] == "60"


ACCEPTED = re.findall(
    r"`k3-ledger (rescore sparkinfer-k3-log [^`]+)` \| (.+) \|", (ROOT / "CONTRIBUTING.md").read_text()
)


@pytest.mark.parametrize(("line", "sums"), ACCEPTED)
def test_what_a_clone_without_golden_rows_can_see(
    command: Callable[..., Done], real: Path, line: str, sums: str
) -> None:
    words = line.replace("sparkinfer-k3-log", str(real)).split()
    done = command(*words)
    for count, word in re.findall(r"(\d+) ([a-z]+)", sums):
        assert f" {count} {word}" in done.out.replace(":", ","), done.out[-300:]


def test_there_is_something_to_see() -> None:
    assert len(ACCEPTED) == 3


def test_the_twenty_figures_from_the_command_line(command: Callable[..., Done], real: Path) -> None:
    path = ROOT / "docs" / "examples" / "claims" / "sparkinfer.toml"
    done = command("claims", "check", path, "--against", real)
    assert done.code == 1
    assert done.out.endswith("22 claims: 9 unsealed, 1 supported, 4 no-receipt, 1 ambiguous, 6 contradicted, 1 stale\n")


def test_unsealed_figures_pass_unless_they_may_not(command: Callable[..., Done], real: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "examples" / "claims" / "sparkinfer.toml").read_text()
    (tmp_path / "one.toml").write_text("[[claim]]" + text.split("[[claim]]")[1])
    assert command("claims", "check", "one.toml", "--against", real).code == 0
    assert command("claims", "check", "one.toml", "--against", real, "--sealed").code == 1


def test_proofs_of_what_a_decision_rests_on_verify_alone(command: Callable[..., Done], tmp_path: Path) -> None:
    command("keygen", "root.pem", "log.pem", "runner.pem")
    roles = [word for role in ("log", "runner") for word in ("--enrol", f"{role}={role}.pub.pem")]
    assert command("init", "own", "--origin", "example.org/x", "--key", "root.pem", *roles).code == 0
    for role, decode in (("reference", 40), ("candidate", 60)):
        invented(tmp_path, role, decode)
        assert command("seal", role, "--ledger", "own", "--key", "runner.pem").code == 0
    (tmp_path / "claims.toml").write_text(CLAIM.replace("k3-slice/bf16/node", "slice/bf16/node"))
    words = ("claims", "check", "claims.toml", "--against", "own", "--processes", "1", "--proofs", "kept")
    done = command(*words)
    assert (done.code, done.out) == (2, "")
    assert "K3L-NOT-CHECKPOINTED" in done.err
    assert command("checkpoint", "--ledger", "own", "--key", "log.pem").code == 0
    done = command(*words)
    assert done.code == 0
    assert [line for line in done.out.splitlines() if "proof" in line] == [
        "  proof: kept/entry-4.proof", "  proof: kept/entry-3.proof",
    ]  # fmt: skip
    assert (command(*words).code, "--replace" in command(*words).err) == (2, True)
    again = command(*words, "--replace", "--json").json[0]
    assert again["proofs"] == ["kept/entry-4.proof", "kept/entry-3.proof"]
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["entry-3.proof", "entry-4.proof"]
    (tmp_path / "own" / "ledger.jsonl").unlink()
    for proof in (tmp_path / "kept").iterdir():
        assert command("verify", proof, "--root-key", "root.pub.pem").code == 0


def test_what_no_ledger_holds_cannot_be_proved(command: Callable[..., Done], real: Path, tmp_path: Path) -> None:
    path = ROOT / "docs" / "examples" / "claims" / "sparkinfer.toml"
    done = command("claims", "check", path, "--against", real, "--proofs", "kept")
    assert done.code == 2
    assert "only what is sealed in a ledger can be proved" in done.err
    assert not (tmp_path / "kept").exists()


def test_proofs_that_cannot_be_written_are_named(command: Callable[..., Done], book: Path, tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(CLAIM)
    (tmp_path / "kept").write_text("a file")
    done = command("claims", "check", "claims.toml", "--against", book, "--processes", "1", "--proofs", "kept")
    assert (done.code, done.out) == (3, "")
    assert "kept" in done.err


def test_a_typo_in_a_claims_file_is_exit_3_with_its_line(
    command: Callable[..., Done], book: Path, tmp_path: Path
) -> None:
    (tmp_path / "claims.toml").write_text(CLAIM.replace("against =", "agianst ="))
    done = command("claims", "check", "claims.toml", "--against", book)
    assert done.code == 3
    assert "claims.toml, line 9, claim[0].agianst: unknown field 'agianst'" in done.err


def test_names_of_the_two_metrics_are_those_of_the_receipts() -> None:
    assert PREFILL == "prefill@32768/k3-slice/bf16/node"
