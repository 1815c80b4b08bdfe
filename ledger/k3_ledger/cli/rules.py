"""``k3-ledger rules``: list, show, compare and lint scoring rules. Needs no ledger, and lists one's own rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from k3_ledger.cli.options import JsonOption, print_json
from k3_ledger.cli.tables import say
from k3_ledger.cli.told import found

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction

    from k3_ledger.rescore.lint.findings import LintFinding, LintReport
    from k3_ledger.rescore.rules.parameters import Rule, Scope

NameArgument = Annotated[
    str, typer.Argument(metavar="RULE", help="Release tag, interim id, or a rule file (*.toml).", show_default=False)
]

OfOption = Annotated[
    Path | None,
    typer.Option(
        "--ledger", "-l", help="Know the rules that this ledger has published by name too.", show_default=False
    ),
]

LIST_HELP = """List every registered rule and the changes that made them, or the rules that a ledger has published.

A ledger is verified first. Each of its rules is compared with the registered ones by digest: a rule may carry the
name of another.
"""

_RECORDED = "precision.percent and precision.kl say how figures are recorded"

LINT_HELP = """Find, from rules alone, the constraints that have expired or will.

Each finding names the fault, the region of inputs it holds in and a smallest witness. An error is live at the values
the rule is pinned to, a warning can be reached within what the rule admits, a note is worth knowing.

Exit codes: 0 nothing live or reachable, 1 something is, 2 usage, 3 a rule file that cannot be read.
"""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(no_args_is_help=True, help="List, show, compare and lint scoring rules.")
    group.command("list", help=LIST_HELP)(list_rules)
    group.command("show", help="Print every parameter of a rule.")(show)
    group.command("diff", help="Print the parameters in which two rules differ. Exit 1 when they do.")(diff)
    group.command("lint", help=LINT_HELP)(lint_rules)
    app.add_typer(group, name="rules")


def load_rule(name: str, also: Sequence[str] = ()) -> Rule:
    """A registered rule, or one read from a file: whatever ends in .toml is a file.

    Args:
        name: name or path.
        also: words that the caller takes in the place of a rule, for the hint.

    Raises:
        RescoreError: no such rule, or not a rule file.
        StoreError: the file cannot be read.
    """
    if _is_file(name):
        from k3_ledger.cli.given import RULE, given
        from k3_ledger.ledger.regular import read_small
        from k3_ledger.rescore.rules.reading import read_rule_file

        with given(name, RULE):
            return read_rule_file(read_small(Path(name)), source=name)
    from k3_ledger.rescore.rules.registry import find_rule

    return find_rule(name, also)


def list_rules(
    ledger: Annotated[
        Path | None,
        typer.Argument(metavar="[LEDGER]", help="List the rules of this ledger instead.", show_default=False),
    ] = None,
    *,
    changes: Annotated[
        bool, typer.Option("--changes", help="Also the changes of pins and of process, which make no rule.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List rules, oldest change first."""
    if ledger is not None:
        if changes:
            raise typer.BadParameter("is about the registered rules: name no ledger", param_hint="--changes")
        _list_published(ledger, as_json=as_json)
        return
    from k3_ledger.cli.tables import print_table
    from k3_ledger.rescore.history.rules import CHANGES, RELEASES, released
    from k3_ledger.rescore.rules.house import HOUSE_RULES
    from k3_ledger.schemas.moments import format_time

    rows: list[dict[str, Any]] = [
        {
            "since": change.since,
            "commit": change.commit,
            "pull_request": change.pull_request,
            "kind": change.kind,
            "rule": change.rule.name if change.rule else None,
            "sha256": change.rule.sha256 if change.rule else None,
            "summary": change.summary,
        }
        for change in CHANGES
        if changes or change.rule
    ]
    rows += [
        {
            "since": release.since,
            "commit": release.commit,
            "pull_request": None,
            "kind": "release",
            "rule": release.tag,
            "sha256": released(release).sha256,
            "summary": f"released with the pins of its day; scores {_scope(released(release))}",
        }
        for release in RELEASES
    ]
    rows.sort(key=lambda row: row["since"])
    rows += [
        {
            "since": None,
            "commit": None,
            "pull_request": None,
            "kind": "house",
            "rule": rule.name,
            "sha256": rule.sha256,
            "summary": f"this project's own; scores {_scope(rule)}",
        }
        for rule in HOUSE_RULES
    ]
    for row in rows:
        row["since"] = format_time(int(row["since"].timestamp())) if row["since"] else None
    if as_json:
        print_json(rows)
        return
    print_table(
        ("since", "rule", "sha256", "kind", "summary"),
        [
            (
                row["since"] or "-",
                row["rule"] or f"- ({row['commit']})",
                (row["sha256"] or "-")[:12],
                row["kind"],
                row["summary"] + (f" (#{row['pull_request']})" if row["pull_request"] else ""),
            )
            for row in rows
        ],
    )


def _list_published(ledger: Path, *, as_json: bool) -> None:
    from k3_ledger.cli.published_rules import read_entries
    from k3_ledger.cli.tables import print_table
    from k3_ledger.rescore.rules.registry import name_by_digest

    rows: list[dict[str, Any]] = []
    for entry, rule, _ in read_entries(ledger):
        rows.append(
            {
                "entry": entry.index,
                "claimed_time": entry.entry.time,
                "rule": rule.name,
                "sha256": rule.sha256,
                "scope": _scope(rule),
                "stands_for": name_by_digest(rule),
            }
        )
    if as_json:
        print_json(rows)
    elif not rows:
        say(f"{ledger} has published no rule", err=True)
    else:
        cells = [
            (str(row["entry"]), row["claimed_time"], row["rule"], row["sha256"][:12], row["scope"], row["stands_for"])
            for row in rows
        ]
        print_table(("entry", "claimed time", "rule", "sha256", "scores", "by its digest"), cells, right=(0,))


def show(
    name: NameArgument,
    toml: Annotated[bool, typer.Option("--toml", help="Print a rule file: a start for a rule of your own.")] = False,
    body: Annotated[
        bool, typer.Option("--body", help="Print the body of a rule entry, for `append rule --body -`.")
    ] = False,
    ledger: OfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print one rule."""
    from k3_ledger.cli.published_rules import load_rule_for
    from k3_ledger.cli.tables import print_table
    from k3_ledger.rescore.rules.reading import format_rule_file
    from k3_ledger.rescore.sealing import rule_body

    rule = load_rule_for(name, ledger)
    if toml + body + as_json > 1:
        raise typer.BadParameter("choose one form", param_hint="--toml, --body, --json")
    if toml:
        typer.echo(format_rule_file(rule), nl=False)
    elif body:
        print_json(rule_body(rule))
    elif as_json:
        print_json(
            {
                "rule": rule.name,
                "sha256": rule.sha256,
                "policy_sha256": rule.policy_sha256,
                "parameters": dict(rule.parameters()),
            }
        )
    else:
        say(f"{rule.name}  sha256 {rule.sha256}")
        print_table(("parameter", "value"), rule.parameters())
        say(f"{_RECORDED}: they change no verdict")


def diff(first: NameArgument, second: NameArgument, ledger: OfOption = None, as_json: JsonOption = False) -> None:
    """Compare two rules."""
    from k3_ledger.cli.published_rules import load_rule_for
    from k3_ledger.cli.tables import print_table
    from k3_ledger.rescore.rules.parameters import RECORDED

    one, two = load_rule_for(first, ledger), load_rule_for(second, ledger)
    left, right = dict(one.parameters()), dict(two.parameters())
    names = [*left, *(name for name in right if name not in left)]
    rows = [(name, left.get(name, "-"), right.get(name, "-")) for name in names if left.get(name) != right.get(name)]
    code = 1 if rows else 0
    with found(code):
        if as_json:
            print_json(
                {
                    "rules": [one.name, two.name],
                    "same_policy": one.policy_sha256 == two.policy_sha256,
                    "differences": [dict(zip(("parameter", "first", "second"), row, strict=True)) for row in rows],
                }
            )
        elif not rows:
            say(f"{one.name} and {two.name} are the same rule, sha256 {one.sha256}")
        else:
            print_table(("parameter", one.name, two.name), rows)
            if one.policy_sha256 == two.policy_sha256:
                say("the same policy: only pins differ")
            elif {name for name, *_ in rows} <= set(RECORDED):
                say(f"{_RECORDED}: the two judge every run alike")
    raise typer.Exit(code)


def lint_rules(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RULE]...", help="Rules or rule files; every registered rule, or the ledger's, when none is named."
        ),
    ] = None,
    jitter: Annotated[
        str | None,
        typer.Option(help="Measured seconds that two equal runs differ by.", show_default="the rule's own word"),
    ] = None,
    signal: Annotated[str, typer.Option(help="How many times the jitter a clock's signal should be.")] = "10",
    measured: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METRIC@CONTEXT=VALUE", help="Newest value, such as decode@131072=56.82; may be repeated."
        ),
    ] = None,
    ledger: OfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lint rules."""
    from k3_ledger.cli.published_rules import load_rule_for, read_published
    from k3_ledger.rescore.lint.findings import Settings
    from k3_ledger.rescore.lint.rule import lint
    from k3_ledger.rescore.rules.registry import RULES

    settings = Settings(
        jitter=None if jitter is None else _amount(jitter, "--jitter"),
        signal_multiple=_amount(signal, "--signal"),
        measured=dict(_measured(spec) for spec in measured or ()),
    )
    if names:
        rules = [load_rule_for(name, ledger) for name in names]
        _note_names([rule for name, rule in zip(names, rules, strict=True) if _is_file(name)], ledger)
    else:
        rules = list(RULES.values()) if ledger is None else read_published(ledger)
    if not rules:
        say(f"{ledger} has published no rule", err=True)
    _check_measured(settings.measured, rules)
    reports = [lint(rule, settings) for rule in rules]
    code = max((int(report.exit_code) for report in reports), default=0)
    with found(code):
        if as_json:
            print_json([_report(report) for report in reports])
        else:
            for number, report in enumerate(reports):
                _print_report(report, first=number == 0)
    raise typer.Exit(code)


def _note_names(rules: Sequence[Rule], ledger: Path | None) -> None:
    """Say of rules out of files which of them are called like another one, of a release or of the ledger."""
    from k3_ledger.cli.material import is_foreign
    from k3_ledger.cli.published_rules import describe_namesake, read_entries

    published: list[Rule] = []
    if rules and ledger is not None and not is_foreign(ledger):
        published = [rule for _, rule, _ in read_entries(ledger)]
    for rule in rules:
        said = describe_namesake(rule, published)
        if said is not None:
            say(f"note: {said}", err=True)


def _is_file(name: str) -> bool:
    """Whether what is given for a rule is a file of one."""
    return name.lower().endswith(".toml")


def _scope(rule: Rule) -> str:
    return _short(rule.scope)


def _short(scope: Scope) -> str:
    return scope.metric if scope.context is None else f"{scope.metric}@{scope.context}"


def _amount(text: str, option: str) -> Fraction:
    from k3_ledger.rescore.exact import parse_decimal
    from k3_ledger.schemas.errors import RescoreError

    try:
        value = parse_decimal(text, field=option)
    except RescoreError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if value <= 0:
        raise typer.BadParameter("must be above zero", param_hint=option)
    return value


def _measured(spec: str) -> tuple[str, Fraction]:
    name, mark, value = spec.partition("=")
    if not mark or not name:
        raise typer.BadParameter(f"{spec!r} is not METRIC@CONTEXT=VALUE", param_hint="--measured")
    return name, _amount(value, "--measured")


def _check_measured(measured: Mapping[str, Fraction], rules: Sequence[Rule]) -> None:
    """Refuse a value that no rule asks for: it would be taken and change nothing."""
    from k3_ledger.rescore.rules.parameters import Scope

    parts = [part for rule in rules for part in (rule.scope, rule.guard) if part is not None]
    known = dict.fromkeys(_short(Scope(part.metric, part.context)) for part in parts)
    for name in measured:
        if name not in known:
            said = f"no rule that is linted knows {name}, only {', '.join(known)}"
            raise typer.BadParameter(said, param_hint="--measured")


def _report(report: LintReport) -> dict[str, Any]:
    return {
        "rule": report.rule.name,
        "sha256": report.rule.sha256,
        "findings": [
            {
                "fault": str(finding.fault),
                "severity": str(finding.severity),
                "reach": str(finding.reach),
                "region": str(finding.region),
                "message": finding.message,
                "witness": dict(finding.witness),
                "shows": finding.shows,
            }
            for finding in report.findings
        ],
    }


def _print_report(report: LintReport, *, first: bool) -> None:
    from k3_ledger.schemas.outcomes import Severity

    counts = [
        f"{count} {word}{'s' if count != 1 else ''}"
        for severity, word in ((Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.NOTE, "note"))
        if (count := sum(finding.severity is severity for finding in report.findings))
    ]
    if not first:
        say()
    say(f"{report.rule.name}: {', '.join(counts) or 'no findings'}")
    for finding in report.findings:
        for line in _lines(finding):
            say(line)


def _lines(finding: LintFinding) -> list[str]:
    from k3_ledger.rescore.lint.findings import MEANINGS

    lines = [
        f"  {finding.severity}: {finding.fault}: {finding.region} ({finding.reach})",
        f"    {MEANINGS[finding.fault]}",
        f"    {finding.message}",
    ]
    if finding.witness:
        inputs = ", ".join(f"{name} {value}" for name, value in finding.witness)
        lines.append(f"    witness: {inputs}: {finding.shows}")
    return lines
