"""What people get wrong, family by family: the mistake itself is named, where it stands, and never in silence."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from k3_ledger.rescore.claims.reading import read_claims
from k3_ledger.rescore.pins import read_merges, read_pins
from k3_ledger.rescore.rules.reading import format_rule_file, read_rule_file
from k3_ledger.rescore.rules.registry import find_rule
from k3_ledger.schemas.errors import RescoreError
from tests.rescore.receipts import DECODE, house_ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.commands import Done

CLAIM = f"""[[claim]]
id = "a"
says = "x"
kind = "speed"
track = "{DECODE}"
value = 60.0
tolerance = "rounding"
ratio = 1.5
against = "reference"
receipt = "abcd"
"""
PINS = f"""[[pin]]
slot = "frontier:{DECODE}"
value = 45
unit = "tok/s"
"""
MERGES = f"""[[merge]]
track = "{DECODE}"
time = 2026-01-01T00:00:09Z
claimed = 60
"""
RULE = format_rule_file(find_rule("v0.2.2"))
READERS: dict[str, tuple[Callable[[bytes], Any], str]] = {
    "claims": (lambda data: read_claims(data, source="x.toml"), CLAIM),
    "pins": (lambda data: read_pins(data, source="x.toml"), PINS),
    "merges": (lambda data: read_merges(data, source="x.toml", receipts={}), MERGES),
    "rule": (lambda data: read_rule_file(data, source="x.toml"), RULE),
}


def refused(kind: str, old: str, new: str) -> RescoreError:
    reader, text = READERS[kind]
    assert old in text
    reader(text.encode())  # as it stands it is good
    with pytest.raises(RescoreError) as caught:
        reader(text.replace(old, new, 1).encode())
    return caught.value


# ------------------------------------------------------------------------------------------ hand-written files


@pytest.mark.parametrize(
    ("kind", "right", "typo"),
    [
        ("claims", "ratio", "raito"),
        ("claims", "against", "agianst"),
        ("claims", "kind", "knid"),
        ("claims", "tolerance", "tolerence"),
        ("pins", "value", "valeu"),
        ("pins", "slot", "solt"),
        ("pins", "unit", "unti"),
        ("merges", "claimed", "claimd"),
        ("merges", "track", "tarck"),
        ("rule", "credit.cap", "credit.cpa"),
        ("rule", "name", "nmae"),
        ("rule", "tiers.floor", "tiers.flor"),
        ("rule", "guard.metric", "gaurd.metric"),
    ],
)
def test_a_typo_is_named_and_not_what_it_leaves_missing(kind: str, right: str, typo: str) -> None:
    error = refused(
        kind, f"\n{right} =" if right != "name" else "name =", f"\n{typo} =" if right != "name" else "nmae ="
    )
    text = READERS[kind][1]
    line = next(number for number, row in enumerate(text.splitlines(), start=1) if row.startswith(f"{right} ="))
    assert typo in error.finding.message
    assert error.finding.position.line == line
    if typo != "nmae":
        assert f"did you mean {right}?" in error.finding.message + str(error.finding.hint)


@pytest.mark.parametrize(("kind", "name"), [("claims", "claim"), ("pins", "pin"), ("merges", "merge")])
def test_a_misspelt_table_is_named(kind: str, name: str) -> None:
    error = refused(kind, f"[[{name}]]", f"[[{name}s]]")
    assert (error.finding.position.line, error.finding.hint) == (1, f"did you mean {name}?")


def test_a_typo_is_named_whatever_its_value_is() -> None:
    error = refused("rule", 'credit.cap = "1"', "credit.cpa = [1]")
    assert "credit.cpa is no parameter; did you mean credit.cap?" in str(error)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('credit.cap = "1"', 'credit.cap = "1x"', "credit.cap"),
        ('credit.cap = "1"\n', "", "credit.cap"),
        ('clock.jitter = "2"', 'clock.jitter = "-2"', "clock"),
        ('credit.cap = "1"', "credit.cap = true", "credit.cap"),
        ('name = "v0.2.2"\n', "", "name"),
        ("arithmetic =", "arithmetic", None),
    ],
)
def test_every_mistake_in_a_rule_file_has_a_line(old: str, new: str, field: str | None) -> None:
    place = refused("rule", old, new).finding.position
    assert (place.source, place.field) == ("x.toml", field)
    assert place.line is not None
    if field and field != "name":
        assert READERS["rule"][1].splitlines()[place.line - 1].startswith(field.partition(".")[0])


def test_lines_are_known_under_headers_too() -> None:
    text = RULE.replace('credit.cap = "1"\n', "") + '\n[credit] # more\n"cap" = "1x"\n'
    anchored = [row for row in text.splitlines() if row.startswith("credit.")]
    text = "\n".join(row for row in text.splitlines() if row not in anchored)
    text += "\n" + "\n".join(row.removeprefix("credit.") for row in anchored)
    with pytest.raises(RescoreError, match="must be an exact number") as caught:
        read_rule_file(text.encode(), source="x.toml")
    assert text.splitlines()[(caught.value.finding.position.line or 0) - 1] == '"cap" = "1x"'


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('scope.metric = "prefill"', 'scope.metric = "prefil"', "scope.metric is no metric; did you mean prefill?"),
        ('guard.metric = "decode"', 'guard.metric = "decod"', "guard.metric is no metric; did you mean decode?"),
        ('ceiling.metrics = "decode"', 'ceiling.metrics = "decode, prefll"', "ceiling.metrics is no metric"),
        ("tiers.steps.XL", "tiers.steps.XXL", "tiers.steps.XXL is no tier: the known ones are XL, L, M, S, XS"),
        ('tiers.floor = "XS"', 'tiers.floor = "XSS"', "tiers.floor is no tier"),
    ],
)
def test_a_word_that_is_like_a_known_one_is_refused(old: str, new: str, says: str) -> None:
    error = refused("rule", old, new)
    assert says in str(error)
    assert error.finding.position.line


def test_a_scale_and_a_metric_of_ones_own_are_taken() -> None:
    text = RULE.replace('scope.metric = "prefill"', 'scope.metric = "verify"')
    for known, own in (("XL", "gold"), ("L", "silver"), ("M", "bronze"), ("S", "tin")):
        text = text.replace(f"tiers.steps.{known} ", f"tiers.steps.{own} ")
    rule = read_rule_file(text.replace('"XS"', '"none-at-all"').encode(), source="x.toml")
    assert rule.tiers.floor == "none-at-all"


@pytest.mark.parametrize(
    ("old", "new", "says", "hint"),
    [
        ('"reference"', '"refrence"', "against is no actor that is known", "did you mean reference?"),
        ('"reference"', '"flor"', "against is no actor that is known", "did you mean floor?"),
        (
            'kind = "speed"',
            'kind = "speed"\nactor = "subjct"',
            "actor is no actor that is known",
            "did you mean subject?",
        ),
        ('"abcd"', '"zzz"', "receipt is not the identity of one", None),
        ('"abcd"', '"ab"', "receipt is not the identity of one", None),
        ('"abcd"', '"ABCD"', "receipt is not the identity of one", None),
        ("value = 60.0", "value = 0", "value must be above zero", None),
        ("value = 60.0", "value = -60.0", "value must be above zero", None),
        ("ratio = 1.5", "ratio = 0", "ratio must be above zero", None),
        ("ratio = 1.5", "start = -1\nratio = 1.5", "start must be above zero", None),
    ],
)
def test_a_value_that_no_claim_can_have_is_refused(old: str, new: str, says: str, hint: str | None) -> None:
    finding = refused("claims", old, new).finding
    assert says in finding.message
    assert finding.position.line is not None
    assert finding.expected
    assert finding.hint == hint
    assert finding.code.info.exit == 3


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_whose_zone_leads_out_of_the_calendar_is_refused(moment: str) -> None:
    text = '[[claim]]\nid = "a"\nsays = "x"\nkind = "every"\nwhat = "kl"\nmost = 1\nuntil = '
    with pytest.raises(RescoreError, match="within the years 1 to 9999"):
        read_claims(f"{text}{moment}\n".encode(), source="claims.toml")


def test_a_peer_may_have_any_name_of_its_own() -> None:
    for name in ("vllm", "reference-2", "sglang"):
        assert read_claims(CLAIM.replace('"reference"', f'"{name}"').encode(), source="x")[0].against == name


def test_a_rule_that_a_claim_names_is_looked_up_as_it_is_read() -> None:
    head = '[[claim]]\nid = "a"\nsays = "x"\nkind = "rescored"\n'
    text = head + 'rule = "v0.2.9"\npins = "own"\nchange = "lower"\ncount = 1\n'
    with pytest.raises(RescoreError, match=r"no registered rule is named 'v0\.2\.9'") as caught:
        read_claims(text.encode(), source="x.toml")
    assert caught.value.finding.position.line == 5
    assert "did you mean v0.2." in str(caught.value.finding.hint)
    assert "or one that a ledger published itself, no claim is checked" in str(caught.value.finding.hint)
    assert "rescore SOURCE --rule NAME|FILE" in str(caught.value.finding.hint)


@pytest.mark.parametrize(("what", "bound"), [("top1", "most"), ("kl", "least"), ("attestation", "least")])
def test_a_bound_that_says_nothing_about_a_property_is_refused(what: str, bound: str) -> None:
    text = f'[[claim]]\nid = "a"\nsays = "x"\nkind = "every"\nwhat = "{what}"\n{bound} = 1\n'
    with pytest.raises(RescoreError, match=f"unknown field '{bound}'"):
        read_claims(text.encode(), source="x.toml")


# --------------------------------------------------------------------------------------------- foreign run logs


@pytest.fixture
def real(test_data: Callable[..., Path]) -> Path:
    return test_data("data", "sparkinfer-k3-log")


@pytest.fixture
def log(real: Path, tmp_path: Path) -> Path:
    """One run of the real log, on its own."""
    (run,) = (real / "runs").glob("70e6a00a*")
    shutil.copytree(run, tmp_path / "log" / "runs" / run.name, copy_function=shutil.copyfile)
    return tmp_path / "log"


def spoil(log: Path, value: str, *, alone: bool) -> str:
    """Spoil the speed in result.json; where it then stands."""
    (result,) = log.glob("runs/*/result.json")
    document = json.loads(result.read_text())
    document["tps"] = "SPOILT"
    result.write_text(json.dumps(document, indent=1).replace('"SPOILT"', value))
    if alone:
        for other in result.parent.iterdir():
            if other != result:
                other.unlink()
    line = next(n for n, row in enumerate(result.read_text().splitlines(), start=1) if '"tps"' in row)
    return f"not read: {result.relative_to(log)}, line {line}"


COMMANDS = {
    "rescore": ("rescore", "log", "--rule", "in-force"),
    "claims": ("claims", "check", "claims.toml", "--against", "log"),
    "reconcile": ("reconcile", "log"),
    "frontier": ("frontier", "log"),
}


SPOILT = ("NaN", '"21 tok/s"', "true", "[21]", '{"value": 21}', "1e99999")


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "beside-a-receipt"])
@pytest.mark.parametrize(
    ("value", "name"),
    [*((value, "rescore") for value in SPOILT), *(("NaN", name) for name in COMMANDS if name != "rescore")],
)
def test_a_figure_that_is_none_is_never_passed_over_in_silence(
    command: Callable[..., Done], log: Path, value: str, name: str, *, alone: bool
) -> None:
    accepted = '[[claim]]\nid = "a"\nsays = "x"\nkind = "accepted"\npull_request = 107\n'
    (log.parent / "claims.toml").write_text(accepted)
    place = spoil(log, value, alone=alone)
    done = command(*COMMANDS[name])
    assert done.code == (1 if name == "claims" and alone else 3)
    assert place in done.err.replace("{'", "") or (value.startswith("{") and place.rpartition(",")[0] in done.err)
    assert "[K3L-NUMBER]" in done.err


@pytest.mark.parametrize("file", ["result.json", "receipt.json"])
@pytest.mark.parametrize("data", [b"{", b"", b"[]", b"\xff\xfe"])
def test_a_record_that_cannot_be_read_at_all_is_named(
    command: Callable[..., Done], log: Path, file: str, data: bytes
) -> None:
    (path,) = log.glob(f"runs/*/{file}")
    path.write_bytes(data)
    done = command(*COMMANDS["rescore"])
    assert done.code == 3
    assert f"not read: {path.relative_to(log)}" in done.err


def test_a_context_that_is_no_number_is_not_replaced_by_an_inferred_one(
    command: Callable[..., Done], log: Path
) -> None:
    (result,) = log.glob("runs/*/result.json")
    document = json.loads(result.read_text())
    document["scored_context"] = "128k"
    result.write_text(json.dumps(document))
    done = command(*COMMANDS["rescore"])
    assert done.code == 3
    assert "scored_context" in done.err
    document["scored_context"] = "131072.5"
    result.write_text(json.dumps(document))
    assert "'131072.5' is not a whole number" in command(*COMMANDS["rescore"]).err


def test_a_directory_that_is_neither_says_what_either_would_hold(command: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = command("rescore", "folder", "--rule", "v0.2.1")
    assert (done.code, done.out) == (3, "")
    assert "folder is neither a ledger nor a foreign run log" in done.err
    assert "ledger.jsonl" in done.err
    assert "runs" in done.err


# --------------------------------------------------------------------------------------------- imported ledgers


@pytest.fixture
def imported(command: Callable[..., Done], real: Path, tmp_path: Path) -> Path:
    """The real log, imported and checkpointed."""
    command("keygen", "root.pem", "log.pem")
    assert (
        command("init", "own", "--origin", "example.org/x", "--key", "root.pem", "--enrol", "log=log.pub.pem").code == 0
    )
    assert command("import", "polaris", real, "--into", "own", "--key", "log.pem").code == 0
    assert command("checkpoint", "--ledger", "own", "--key", "log.pem").code == 0
    return tmp_path / "own"


def test_the_nine_runs_are_recognised_in_an_imported_ledger(command: Callable[..., Done], imported: Path) -> None:
    from tests.rescore.test_golden_rescore import NINE

    words = ("rescore", "own", "--rule", "v0.2.1", "--processes", "1")
    done = command(*words)
    assert done.code == 0
    assert "35 unchanged, 9 lower, 0 higher, 7 not scorable" in done.out
    assert all(f"(run {name[:8]})" in done.out for name in NINE)
    rows = [run for run in command(*words, "--json").json["runs"] if run["change"] == "lower"]
    assert sorted(run["foreign_id"][:8] for run in rows) == sorted(name[:8] for name in NINE)
    assert all(isinstance(run["index"], int) for run in rows)


def test_an_imported_receipt_is_proved(command: Callable[..., Done], imported: Path, tmp_path: Path) -> None:
    speed = (
        CLAIM.partition("ratio")[0].replace(DECODE, "decode@131072/Kimi-K3/UD-IQ1_S/h200x8").replace("60.0", "41.39")
    )
    which = 'receipt = "70e6a00a"\n'
    others = "".join(
        f'[[claim]]\nid = "{kind}"\nsays = "x"\nkind = "{kind}"\n{which}{more}'
        for kind, more in (
            ("accepted", ""),
            ("gain", "percent = 16.2\ntolerance = 0.1\n"),
            ("credit", "gain_percent = 16.2\ncredited_percent = 16.2\ntolerance = 0.1\n"),
            ("rescored", 'rule = "v0.2.1"\npins = "own"\nchange = "lower"\ncount = 9\n'),
        )
    ).replace(f'kind = "rescored"\n{which}', 'kind = "rescored"\n')
    (tmp_path / "claims.toml").write_text(speed + which + others)
    words = ("claims", "check", "claims.toml", "--against", "own", "--processes", "1", "--proofs", "kept")
    done = command(*words)
    (proof,) = (tmp_path / "kept").iterdir()
    assert done.out.count(f"  proof: kept/{proof.name}\n") == 4
    assert done.out.count("  no proof: it rests on no single entry of this ledger\n") == 1
    assert "(run 70e6a00a)" in done.out
    first = command(*words, "--json", "--replace").json[0]
    assert (first["proofs"], f"entry-{first['parts'][0]['evidence'][0]['index']}.proof") == (
        [f"kept/{proof.name}"],
        proof.name,
    )
    (imported / "ledger.jsonl").unlink()
    assert command("verify", proof, "--root-key", "root.pub.pem").code == 0


def test_a_foreign_directory_says_why_there_is_nothing_to_prove(
    command: Callable[..., Done], real: Path, tmp_path: Path
) -> None:
    (tmp_path / "claims.toml").write_text(CLAIM)
    done = command("claims", "check", "claims.toml", "--against", real, "--proofs", "kept")
    assert done.code == 2
    assert "import the log first" in done.err


# ---------------------------------------------------------------------------------------------------- selections


@pytest.fixture
def book(tmp_path: Path) -> Path:
    folder = tmp_path / "book"
    folder.mkdir()
    return house_ledger()[0].write(folder)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--rule", "house-1.decode", "--pr", "9999"), 2, "no run says that it is of pull request 9999"),
        (("--rule", "house-1.decode", "--since", "2026-02-01", "--until", "2026-01-01"), 2, "is after --until"),
        (("--rule", "house-1.decode", "--until", "2020-01-01"), 0, "note: no run is selected by what was asked for"),
        (("--rule", "in-forc"), 2, "did you mean in-force? registered: in-force, "),
        (("--rule", "v0.2.1", "--against", "publishd"), 2, "did you mean published?"),
        (("--rule", "house-1.decode", "--pins", "empty.toml"), 0, "note: empty.toml pins nothing"),
    ],
)
def test_what_selects_nothing_is_said(
    command: Callable[..., Done], book: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    (book.parent / "empty.toml").write_text("# nothing yet\n")
    done = command("rescore", book, "--processes", "1", *words)
    assert done.code == code
    assert says in done.err


def test_a_ledger_without_runs_and_an_empty_pins_file_are_said(command: Callable[..., Done], tmp_path: Path) -> None:
    builder, _ = house_ledger()
    builder.lines = builder.lines[:4]
    builder.write(tmp_path)
    (tmp_path / "empty.toml").write_text("")
    assert "note: there is no run in it" in command("rescore", ".", "--rule", "v0.2.1", "--processes", "1").err
    assert "note: empty.toml pins nothing" in command("reconcile", ".", "--pins", "empty.toml").err
