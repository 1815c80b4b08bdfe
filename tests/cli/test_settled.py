"""What rests on other entries is settled in whatever form a log comes, and however little else there is to judge."""

from __future__ import annotations

import io
import json
import tarfile
from hashlib import sha256
from typing import TYPE_CHECKING, Any, get_args

import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app
from k3_ledger.schemas.envelope import JUDGED_KINDS, SELF_CONTAINED, SIGNING_ROLES, Kind
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.ledgers import JUDGE, ROOT, Builder, canonical, tree_root
from tests.rescore.receipts import DECODE, pin_body
from tests.rescore.test_judgements import sealed
from tests.rescore.test_replay import HOUSE, rule_body
from tests.static_host import ledger_files, mirror_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Names = list[str]

UNKNOWN_RUN = {"pull_request": None, "commit": "c" * 40, "claimed": None, "slot": f"frontier:{DECODE}"}


def k3(*arguments: object, given: bytes | None = None) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)


def said(path: object, *more: object, given: bytes | None = None) -> tuple[int, list[str]]:
    report = json.loads(k3("verify", path, "--json", "--root-key", ROOT.public.hex(), *more, given=given).stdout)
    return report["exit_code"], [name for name in report["counts"] if name != "K3L-MIRROR-INCOMPLETE"]


def notes(count: int = 3) -> tuple[Builder, Names]:
    """A ledger with nothing in it to judge, and the identities of its notes."""
    ledger = Builder().open()
    return ledger, [ledger.add("note", {"artifacts": [], "text": f"{n}"}, JUDGE) for n in range(count)]


def supersede(ledger: Builder, target: str, replacement: str | None) -> str:
    return ledger.add("supersede", {"reason": "a slip", "replacement": replacement, "target": target}, JUDGE)


def _itself(ledger: Builder, names: Names) -> None:
    supersede(ledger, names[0], names[0])


def _what_was_taken_back(ledger: Builder, names: Names) -> None:
    supersede(ledger, names[1], None)
    supersede(ledger, names[0], names[1])


def _a_circle_of_two(ledger: Builder, names: Names) -> None:
    supersede(ledger, names[0], names[1])
    supersede(ledger, names[1], names[0])


def _a_circle_of_three(ledger: Builder, names: Names) -> None:
    for target, replacement in zip(names, [*names[1:], names[0]], strict=True):
        supersede(ledger, target, replacement)


def _a_supersession_that_was_taken_back(ledger: Builder, names: Names) -> None:
    taken_back = supersede(ledger, names[0], None)
    supersede(ledger, taken_back, None)
    supersede(ledger, names[1], taken_back)


def _nothing(ledger: Builder, names: Names) -> None:
    supersede(ledger, names[0], None)


def _another_that_stands(ledger: Builder, names: Names) -> None:
    supersede(ledger, names[0], names[1])
    supersede(ledger, names[1], names[2])


def _a_false_one_that_was_taken_back(ledger: Builder, names: Names) -> None:
    supersede(ledger, supersede(ledger, names[0], names[0]), None)


FALSE = (
    _itself,
    _what_was_taken_back,
    _a_circle_of_two,
    _a_circle_of_three,
    _a_supersession_that_was_taken_back,
)
HONEST = (_nothing, _another_that_stands, _a_false_one_that_was_taken_back)
CASES = [*((case, True) for case in FALSE), *((case, False) for case in HONEST)]


def made(case: Callable[[Builder, Names], None]) -> Builder:
    ledger, names = notes()
    case(ledger, names)
    return ledger


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def bundle_of(files: dict[str, bytes], ledger: Builder) -> bytes:
    """An offline bundle of the whole record that its maker did not verify."""
    listed = {
        "entries": None, "origin": ledger.origin, "policy_sha256": None, "schema": "k3-ledger/pack/1",
        "root": tree_root(ledger.lines).hex(), "size": len(ledger.lines),
        "files": [{"name": n, "sha256": sha256(d).hexdigest(), "size": len(d)} for n, d in sorted(files.items())],
    }  # fmt: skip
    return tar_of({"pack.json": canonical(listed), **dict(sorted(files.items()))})


FORMS = ("folder", "file", "tar", "bundle", "mirror", "mirror in a tar", "address", "mirror at an address", "stdin")


def shown(form: str, ledger: Builder, tmp_path: Path) -> tuple[object, bytes | None]:
    """What to give to ``verify``, and what stands on its standard input."""
    whole, tiles = ledger_files(ledger, {}), mirror_files(ledger, {})
    folder, mirror = tmp_path / "ledger", tmp_path / "mirror"
    for place, files in ((folder, whole), (mirror, tiles)):
        for name, data in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(data)
    packed = {"tar": tar_of(whole), "mirror in a tar": tar_of(tiles), "bundle": bundle_of(whole, ledger)}
    for name, data in packed.items():
        (tmp_path / f"{name}.tar").write_bytes(data)
    return {
        "folder": folder, "file": folder / "ledger.jsonl", "mirror": mirror, "stdin": "-",
        "address": f"file://{folder}", "mirror at an address": f"file://{mirror}",
    }.get(form, tmp_path / f"{form}.tar"), ledger.data if form == "stdin" else None  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("case", "false"), CASES, ids=[case.__name__.strip("_") for case, _ in CASES])
def test_a_supersession_is_held_to_its_rule_with_nothing_else_to_judge(
    case: Callable[[Builder, Names], None], false: bool, form: str, tmp_path: Path
) -> None:
    path, given = shown(form, made(case), tmp_path)
    expected = (1, [Code.SUPERSEDE_REPLACEMENT.id]) if false else (0, [])
    if form in {"file", "stdin"}:  # no checkpoint beside it
        assert said(path, given=given)[0] == expected[0]
        return
    assert said(path, given=given) == expected


@pytest.mark.parametrize("case", FALSE)
def test_what_was_called_false_before_an_honest_entry_is_called_so_behind_it(
    case: Callable[[Builder, Names], None], tmp_path: Path
) -> None:
    """One verdict for one fault: it neither appears nor goes away with what else the log holds."""
    ledger, names = notes()
    case(ledger, names)
    before = said(ledger.write(tmp_path))
    ledger.add("merge", {**UNKNOWN_RUN, "run": None, "claimed": "5"}, JUDGE)
    assert said(ledger.write(tmp_path)) == before == (1, [Code.SUPERSEDE_REPLACEMENT.id])


ALONE: dict[str, Callable[[Names], tuple[dict[str, Any], Code]]] = {
    "supersede": lambda names: (
        {"reason": "a slip", "replacement": names[0], "target": names[0]},
        Code.SUPERSEDE_REPLACEMENT,
    ),
    "pin": lambda names: (pin_body(f"frontier:{DECODE}", "50", names[0]), Code.PIN_UNSOURCED),
    "merge": lambda names: ({**UNKNOWN_RUN, "run": None, "claimed": "0"}, Code.JUDGEMENT_UNREADABLE),
    "rule": lambda names: (_rule(), Code.JUDGEMENT_UNREADABLE),
    "verdict": lambda names: (_verdict(names[0]), Code.VERDICT_MISMATCH),
}
"""By kind, a false entry of it that stands alone, and what is found."""


def _rule() -> dict[str, Any]:
    return {**rule_body(HOUSE), "rule_sha256": "9" * 64}


def _verdict(target: str) -> dict[str, Any]:
    return {**sealed()[1], "target": target, "pins": []}


@pytest.mark.parametrize("kind", [kind for kinds in JUDGED_KINDS.values() for kind in kinds])
def test_a_false_entry_of_each_kind_is_found_where_it_is_the_only_one(kind: str, tmp_path: Path) -> None:
    ledger, names = notes(1)
    assert said(ledger.write(tmp_path)) == (0, [])
    body, code = ALONE[kind](names)
    ledger.add(kind, body, JUDGE)
    assert said(ledger.write(tmp_path)) == (1, [code.id])


def test_every_kind_is_settled_somewhere_and_in_one_place() -> None:
    judged = [kind for kinds in JUDGED_KINDS.values() for kind in kinds]
    assert sorted([*judged, *SELF_CONTAINED]) == sorted(get_args(Kind)) == sorted(SIGNING_ROLES)


@pytest.mark.parametrize(
    "command",
    [
        ("trust", "init", "ledger", "--out", "trust.toml"),
        ("bundle", "pack", "ledger", "--out", "all.tar"),
        ("bundle", "pack", "ledger", "--entries", "4", "--out", "one.tar"),
        ("export", "ledger", "--dsse", "--key", "other.pem", "--out", "out.jsonl"),
        ("rescore", "ledger", "--rule", "house-1.decode"),
        ("frontier", "ledger"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("false", [True, False])
def test_no_command_builds_on_what_verify_refuses(
    command: tuple[str, ...], false: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ledger").mkdir()
    assert k3("keygen", "other.pem").exit_code == 0
    made(_itself if false else _nothing).write(tmp_path / "ledger")
    result = k3(*command)
    code = result.exception.code if isinstance(result.exception, LedgerError) else None
    assert (code, result.exit_code) == ((Code.SUPERSEDE_REPLACEMENT, 1) if false else (None, 0)), result.output


def test_what_the_policy_requires_of_judgements_is_met_by_a_log_that_is_packed(tmp_path: Path) -> None:
    """The steps of the room that judges count as checked for whoever builds on a log, as they do for ``verify``."""
    (tmp_path / "ledger").mkdir()
    made(_another_that_stands).write(tmp_path / "ledger")
    policy = tmp_path / "trust.toml"
    policy.write_text(f'root_public_key = "{ROOT.public.hex()}"\nrequire = ["verdicts"]\n')
    for more in ((), ("--entries", "4")):
        result = k3(
            "bundle", "pack", tmp_path / "ledger", "--trust", policy, "--out", tmp_path / f"out{len(more)}", *more
        )
        assert result.exit_code == 0, result.output
    assert said(tmp_path / "out0", "--require", "verdicts") == (0, [])


def test_a_proof_says_that_a_supersession_was_not_settled(tmp_path: Path) -> None:
    """What it replaces and whether that stood, only the log can show."""
    ledger, names = notes()
    supersede(ledger, names[0], names[1])
    ledger.write(tmp_path)
    assert k3("prove", len(ledger.lines) - 1, "--ledger", tmp_path, "--out", tmp_path / "proof").exit_code == 0
    report = json.loads(k3("verify", tmp_path / "proof", "--json").stdout)
    (step,) = [step for step in report["steps"] if step["name"] == "verdicts"]
    assert (step["outcome"], step["not_checked"]) == ("not-checked", 1)
    assert said(tmp_path / "proof", "--require", "verdicts")[0] == 4
