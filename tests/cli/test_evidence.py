"""Evidence is what was shown, whatever showed it; and what is said to be kept is there, beside what was kept before."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests import static_host
from tests.cli.test_memory import fork, write_memory
from tests.ledgers import ROOT, RUNNER, Builder, run_body, sign_head, small_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

    Run = Callable[..., Done]

EARLY, LATE = "2026-06-01T00:00:00Z", "2026-07-01T00:00:00Z"
HONEST = small_ledger()
GROWN = Builder(HONEST.lines[:]).runs(3)
OTHER = Builder(HONEST.lines[:8])
OTHER.add("run", run_body(99), RUNNER)
OTHER.runs(1)
"""Another history of as many entries as the honest one."""
OLDER = 7
RECORDS = ("ledger", "tar", "mirror", "bundle", "address")
EXTRACTS = ("extract", "proof", "consistency")


def lay_out(run: Run, tmp_path: Path, ledger: Builder) -> Path:
    folder = tmp_path / "speed"
    folder.mkdir()
    ledger.write(folder)
    (folder / "checkpoints").mkdir()
    for size in (OLDER, len(ledger.lines)):
        (folder / "checkpoints" / f"{size:012}.note").write_bytes(sign_head(ledger.lines[:size]))
    return folder


def make(run: Run, tmp_path: Path, kind: str) -> str:
    """What a reader is handed, made from the ledger ``speed``."""
    made = {
        "ledger": lambda: None,
        "tar": lambda: shutil.make_archive("speed", "tar", tmp_path, "speed"),
        "mirror": lambda: run("tiles", "speed", "--out", "mirror"),
        "address": lambda: run("tiles", "speed", "--out", "mirror"),
        "bundle": lambda: run("bundle", "pack", "speed", "-o", "whole.tar"),
        "extract": lambda: run("bundle", "pack", "speed", "--entries", "7", "-o", "some.tar"),
        "proof": lambda: run("prove", 7, "-l", "speed", "-o", "seven.proof"),
        "consistency": lambda: run("prove", "--consistency", OLDER, 10, "-l", "speed", "-o", "heads.proof"),
    }[kind]()
    assert made is None or isinstance(made, str) or made.code == 0, made
    return {
        "ledger": "speed", "tar": "speed.tar", "mirror": "mirror", "bundle": "whole.tar", "extract": "some.tar",
        "proof": "seven.proof", "consistency": "heads.proof", "address": "",
    }[kind]  # fmt: skip


def look(run: Run, tmp_path: Path, kind: str, *words: str) -> Done:
    subject = make(run, tmp_path, kind)
    if kind != "address":
        return run("verify", subject, *words)
    mirror = tmp_path / "mirror"
    files = {str(path.relative_to(mirror)): path.read_bytes() for path in mirror.rglob("*") if path.is_file()}
    with static_host.serve(files) as host:
        return run("verify", host.address, *words)


def evidence(folder: Path) -> list[dict[str, bytes]]:
    return [{path.name: path.read_bytes() for path in one.iterdir()} for one in sorted(folder.iterdir())]


CASES = [(kind, what) for kind in RECORDS for what in ("fork", "rollback", "frozen")]
CASES += [(kind, what) for kind in EXTRACTS for what in ("fork", "frozen")]
CASES += [(kind, what) for kind in ("ledger", "tar") for what in ("behind", "cut", "root")]


@pytest.mark.parametrize(
    ("kind", "what", "how"),
    [
        *((*case, "--memory") for case in CASES),
        *((*case, "--expect-head") for case in CASES if case[1] != "frozen"),  # since when it stands a memory tells
    ],
)
def test_the_head_that_shows_it_is_kept_with_the_one_that_was_remembered(
    run: Run, tmp_path: Path, kind: str, what: str, how: str
) -> None:
    shown = {"fork": OTHER, "behind": GROWN, "cut": GROWN}.get(what, HONEST)
    seen = GROWN if what in ("rollback", "behind") else HONEST
    folder = lay_out(run, tmp_path, shown)
    expected, code = [shown.head()], what.upper()
    if what == "behind":
        (folder / "checkpoint").write_bytes(HONEST.head())
        (folder / "checkpoints" / f"{len(GROWN.lines):012}.note").unlink()
        expected, code = [HONEST.head()], "CHECKPOINT-BEHIND"
    if what == "cut":
        (folder / "ledger.jsonl").write_bytes(HONEST.data)
        code = "CHECKPOINT-AHEAD"
    if what == "root":  # a head of the log's own, among those that are kept, is of another history
        odd = sign_head(fork().lines[:9])
        (folder / "checkpoints" / "000000000009.note").write_bytes(odd)
        expected, code = [HONEST.head(), odd], "CHECKPOINT-ROOT"
    if kind == "consistency":
        expected.append(sign_head(shown.lines[:OLDER]))
    code = "HEAD-FROZEN" if what == "frozen" else code
    write_memory(tmp_path / "seen", seen.head())
    if how == "--expect-head":
        (tmp_path / "seen").write_bytes(seen.head())
    (tmp_path / "trust.toml").write_text("maximum_head_age_seconds = 604800\n")
    policy = ("--trust", "trust.toml", "--now", LATE) if what == "frozen" else ("--root-key", ROOT.public.hex())
    done = look(run, tmp_path, kind, how, "seen", *policy)
    assert f"[K3L-{code}]" in done.out, done.out
    assert "note: evidence is kept in seen.evidence/" in done.err
    (kept,) = evidence(tmp_path / "seen.evidence")
    assert [kept[name] for name in sorted(kept, key=len) if name.startswith("shown")] == expected
    assert kept["remembered.note"] == seen.head()
    assert f"K3L-{code}" in json.loads(kept["report.json"])["counts"]
    listed = done.err.partition("note: evidence is kept in ")[2].splitlines()[0].partition(": ")[2]
    assert sorted(listed.split(", ")) == sorted(kept)


def test_of_two_heads_of_one_size_both_are_kept_though_the_newest_is_another(run: Run, tmp_path: Path) -> None:
    longer = Builder(OTHER.lines[:]).runs(2)
    lay_out(run, tmp_path, longer)
    (tmp_path / "speed" / "checkpoints" / "000000000010.note").write_bytes(OTHER.head())
    write_memory(tmp_path / "seen", HONEST.head())
    assert "[K3L-FORK]" in run("verify", "speed", "--memory", "seen").out
    (kept,) = evidence(tmp_path / "seen.evidence")
    assert (kept["shown.note"], kept["shown-2.note"]) == (longer.head(), OTHER.head())


def test_later_evidence_is_not_swallowed_by_earlier_and_milder_one(run: Run, tmp_path: Path) -> None:
    """A host that shows no head has no note of its own in the evidence: what it did tells one visit from the next."""
    folder = lay_out(run, tmp_path, GROWN)
    words = ("verify", "speed", "--memory", "seen", "--root-key", ROOT.public.hex())
    assert run(*words).code == 0
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoint").unlink()
    counts = []
    for lines in (GROWN.lines, HONEST.lines[:8], HONEST.lines[:6], OTHER.lines):
        (folder / "ledger.jsonl").write_bytes(b"".join(lines))
        for again in (False, True):
            done = run(*words)
            place = done.err.partition(" in ")[2].partition(": ")[0]
            said = json.loads((tmp_path / place / "report.json").read_bytes())
            assert said["counts"].keys() == run(*words, "--json").json["counts"].keys()
            assert said["head"]["size"] == len(lines)
            assert ("was kept before" in done.err) == again
        counts.append(set(said["counts"]))
    assert len(evidence(tmp_path / "seen.evidence")) == 4
    assert [("K3L-ROLLBACK" in each, "K3L-CHECKPOINT-BEHIND" in each) for each in counts[:3]] == [
        (False, True), (True, False), (True, False),
    ]  # fmt: skip


def test_the_same_finding_of_another_subject_is_other_evidence(run: Run, tmp_path: Path) -> None:
    lay_out(run, tmp_path, OTHER)
    write_memory(tmp_path / "seen", HONEST.head())
    for index in (5, 7):
        assert run("prove", index, "-l", "speed", "-o", f"{index}.proof").code == 0
        assert run("verify", f"{index}.proof", "--memory", "seen").code == 1
    subjects = {json.loads(each["report.json"])["subject"] for each in evidence(tmp_path / "seen.evidence")}
    assert subjects == {"5.proof: entry 5", "7.proof: entry 7"}


def test_another_finding_about_the_same_heads_is_other_evidence(run: Run, tmp_path: Path) -> None:
    lay_out(run, tmp_path, OTHER)
    write_memory(tmp_path / "seen", HONEST.head())
    (tmp_path / "trust.toml").write_text("minimum_size = 99\n")
    for policy in ((), ("--trust", "trust.toml")):
        assert run("verify", "speed", "--memory", "seen", *policy).code == 1
    found = [set(json.loads(each["report.json"])["counts"]) for each in evidence(tmp_path / "seen.evidence")]
    assert sorted(map(len, found)) == [1, 2]


def test_evidence_is_kept_where_the_memory_cannot_be_written(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = lay_out(run, tmp_path, GROWN)
    words = ("verify", "speed", "--memory", "seen", "--root-key", ROOT.public.hex())
    assert run(*words).code == 0
    shutil.rmtree(folder / "checkpoints")
    (folder / "checkpoint").write_bytes(HONEST.head())

    def refuse(*_: object, **__: object) -> bool:
        from k3_ledger.schemas.errors import StoreError
        from k3_ledger.schemas.findings import Code

        raise StoreError(Code.DISK_FULL, "no room")

    monkeypatch.setattr("k3_ledger.cli.memory.keep_head", refuse)
    assert run(*words).code == 3
    (kept,) = evidence(tmp_path / "seen.evidence")
    assert "K3L-CHECKPOINT-BEHIND" in json.loads(kept["report.json"])["counts"]


def test_a_head_that_is_kept_and_cannot_be_read_takes_nothing_from_the_others(run: Run, tmp_path: Path) -> None:
    folder = lay_out(run, tmp_path, OTHER)
    (folder / "checkpoints" / "000000000003.note").mkdir()
    write_memory(tmp_path / "seen", HONEST.head())
    assert run("verify", "speed", "--memory", "seen").code == 1
    (kept,) = evidence(tmp_path / "seen.evidence")
    assert kept["shown.note"] == OTHER.head()


def test_a_proof_file_that_is_none_shows_no_head(run: Run, tmp_path: Path) -> None:
    """Nothing is found then that would be evidence; a damaged one accuses nobody."""
    lay_out(run, tmp_path, OTHER)
    write_memory(tmp_path / "seen", HONEST.head())
    assert run("prove", 7, "-l", "speed", "-o", "seven.proof").code == 0
    data = (tmp_path / "seven.proof").read_bytes()
    (tmp_path / "seven.proof").write_bytes(data[: len(data) // 2])
    assert run("verify", "seven.proof", "--memory", "seen").code != 0
    assert not (tmp_path / "seen.evidence").exists()
