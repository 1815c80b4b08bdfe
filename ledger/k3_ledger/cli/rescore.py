"""``k3-ledger rescore``: judge a history again under a rule."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from k3_ledger.cli.material import (
    CORES,
    ProcessesOption,
    SourceArgument,
    load_with_log,
    note_empty,
    note_unread,
)
from k3_ledger.cli.options import JsonOption, PassphraseOption, TimeOption, WaitOption, print_json
from k3_ledger.cli.signing import load_key
from k3_ledger.cli.tables import say
from k3_ledger.cli.trusting import ExpectHeadOption, RequireOption, RootKeyOption, TrustOption, believe

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from k3_ledger.cli.trusting import Trusted
    from k3_ledger.ledger.writer.append import Writer
    from k3_ledger.ledger.writer.state import LogState
    from k3_ledger.rescore.material import LeftOut, Material
    from k3_ledger.rescore.pins import PinRecord
    from k3_ledger.rescore.rescore import Pins, RescoreReport, Selection
    from k3_ledger.rescore.rules.parameters import Rule
    from k3_ledger.schemas.findings import Finding
    from k3_ledger.verify.log import VerifiedLog

HELP = """Judge every run of a history again under a rule, exactly, and say what changes and why.

SOURCE is a ledger, which is verified first, or the directory of a foreign run log of the polaris family, which is
audited. A rule scores its own metric and context only; every other run is counted as not scorable, with the reason.

What the log does not carry is taken from the shipped history and marked (inferred); a gate whose evidence is absent is
named as lacking and the tier is still shown. --seal appends the verdicts as entries; nothing is edited. What is sealed
was judged of the ledger as it is then: where it grew since it was verified, it is verified and judged again first.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("rescore", help=HELP)(rescore)


def rescore(
    source: SourceArgument,
    rule: Annotated[
        str,
        typer.Option(
            help="Release tag, interim id, a rule that SOURCE published, rule file, or in-force.", show_default=False
        ),
    ],
    pins: Annotated[str, typer.Option(metavar="own|tag|FILE", help="Whose pins the runs are held against.")] = "own",
    against: Annotated[
        str, typer.Option(metavar="published|in-force|RULE", help="What the new tiers are compared with.")
    ] = "published",
    since: Annotated[str | None, typer.Option(help="Only runs from this moment on (2026-08-04T14:51:24Z).")] = None,
    until: Annotated[str | None, typer.Option(help="Only runs up to this moment.")] = None,
    pr: Annotated[int | None, typer.Option(min=1, help="Only runs of this pull request.")] = None,
    metric: Annotated[str | None, typer.Option(help="Only runs of this metric.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="List every run, not only those that change.")] = False,
    counts: Annotated[
        bool,
        typer.Option(
            "--counts",
            help="Only count tiers and changes of a ledger's native receipts: fast, in flat memory. Without, it takes "
            "several times as long as verifying, and memory that grows with the log.",
        ),
    ] = False,
    seal: Annotated[
        Path | None, typer.Option(metavar="KEY", help="Append the verdicts, signed by this judge's key file.")
    ] = None,
    passphrase_file: PassphraseOption = None,
    time: TimeOption = None,
    wait: WaitOption = 10.0,
    trust: TrustOption = None,
    root_key: RootKeyOption = None,
    require: RequireOption = None,
    expect_head: ExpectHeadOption = None,
    processes: ProcessesOption = CORES,
    as_json: JsonOption = False,
) -> None:
    """Re-score."""
    from k3_ledger.cli.published_rules import load_rule_for
    from k3_ledger.rescore.rescore import IN_FORCE, Selection, unused_pins

    trusted = believe(trust, root_key, require, expect_head, subject=source)
    chosen = IN_FORCE if rule == IN_FORCE else load_rule_for(rule, source, (IN_FORCE,))
    other = against if against in {"published", IN_FORCE} else load_rule_for(against, source, ("published", IN_FORCE))
    if counts:
        other_asked = (pins, against, since, until, pr, metric, seal) != (
            "own",
            "published",
            None,
            None,
            None,
            None,
            None,
        )
        if chosen == IN_FORCE or other_asked or everything:
            raise typer.BadParameter("takes a rule and nothing else", param_hint="--counts")
        _count(source, chosen, processes, trusted, as_json=as_json)  # type: ignore[arg-type]
        return
    selection = Selection(_moment(since, "--since"), _moment(until, "--until"), pr, metric)
    if selection.since and selection.until and selection.since > selection.until:
        raise typer.BadParameter("is after --until: no run can be in between", param_hint="--since")
    asked = _Asked(chosen, other, _pins(pins), selection, trusted, sealing=seal is not None)  # type: ignore[arg-type]
    material, log, report = _judge(source, processes, asked)
    sealed = None
    if seal is not None:
        assert log is not None, "what is sealed into was verified"
        with _writer(source, seal, passphrase_file, wait) as writer, writer.exclusive() as state:
            if not _is_head(log, state):
                say("note: the ledger grew meanwhile, and was verified and judged again", err=True)
                material, _, report = _judge(source, processes, asked)
            sealed = _seal(writer, report, time)
    for pin in unused_pins(report.rows, asked.pins):
        say(f"warning: {pin.position}: {pin.slot}: no run that was judged is held against this pin", err=True)
    left_out = [] if pr is not None else [one for one in material.left_out if selection.spans(one.at, one.metric)]
    untraced = [] if isinstance(asked.pins, str) else _trace(asked.pins, material)
    if as_json:
        document = _document(report, material, left_out, rule, pins, against)
        print_json({**document, "pins_found": [finding.as_dict() for finding in untraced]})
    else:
        _print(report, material, left_out, everything=everything)
    if sealed is not None:
        say(f"{sealed[0]} verdicts sealed, {sealed[1]} were there already", err=True)
        if supposed := _count_supposed(report):
            said = f"{supposed} of them rest on pins of {pins}, which nobody can derive from the ledger"
            say(f"warning: {said}: they say what would be, and publish nothing", err=True)
        if unknown := _list_unknown(report):
            said = f"the ledger has not published {' or '.join(unknown)}, so what is sealed by it publishes nothing"
            say(f"warning: {said}: append it with `k3-ledger append rule`, and seal again", err=True)
    if not report.rows:
        empty = "no run in it is a measurement" if material.left_out else "there is no run in it"
        why = "no run is selected by what was asked for" if material.candidates else empty
        say(f"note: {why}, so nothing was judged", err=True)
    raise typer.Exit(note_unread(material, 0))


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is to be judged, and by what."""

    rule: Rule | Literal["in-force"]
    against: Rule | Literal["published", "in-force"]
    pins: Pins
    selection: Selection
    trusted: Trusted
    sealing: bool


def _judge(path: Path, processes: int, asked: _Asked) -> tuple[Material, VerifiedLog | None, RescoreReport]:
    """Verify, gather and judge; the log is None for a foreign one."""
    from k3_ledger.rescore.pins import weigh_pins
    from k3_ledger.rescore.rescore import rescore as judge

    material, log = load_with_log(path, processes, asked.trusted)
    if asked.sealing and log is None:
        raise typer.BadParameter("only a ledger can be sealed into: import the log first", param_hint="--seal")
    if asked.rule != "in-force":
        _check_name(asked.rule, material, sealing=asked.sealing)
    _check_selection(asked.selection, material)
    pins = asked.pins if isinstance(asked.pins, str) else weigh_pins(asked.pins, material.weights)
    report = judge(material.candidates, asked.rule, pins=pins, against=asked.against, selection=asked.selection)
    return material, log, report


def _check_selection(selection: Selection, material: Material) -> None:
    """Refuse a metric that nothing measures, and a pull request that no run is of."""
    metric, number = selection.metric, selection.pull_request
    measured = dict.fromkeys(candidate.run.track.metric for candidate in material.candidates)
    measured |= dict.fromkeys(one.metric for one in material.left_out if one.metric != "-")
    if metric is not None and metric not in measured:
        said = f"no run measures {metric!r}, only {', '.join(measured) or 'nothing at all'}"
        raise typer.BadParameter(said, param_hint="--metric")
    if number is not None and all(candidate.run.pull_request != number for candidate in material.candidates):
        raise typer.BadParameter(f"no run says that it is of pull request {number}", param_hint="--pr")


def _check_name(rule: Rule, material: Material, *, sealing: bool) -> None:
    """Refuse to seal under a name that is another rule's, not this rule's, or kept for releases; else say so."""
    from k3_ledger.cli.published_rules import describe_namesake
    from k3_ledger.rescore.rules.registry import is_of_a_release, names_by_digest

    published = [one for _, one in material.rules]
    said = describe_namesake(rule, published)
    if said is None:
        names = names_by_digest(published).get(rule.sha256, frozenset())
        if sealing and names and rule.name not in names:
            said = f"{rule.name} is {' or '.join(sorted(names))} under a name that nobody published"
            raise typer.BadParameter(f"{said}: seal under the one it has", param_hint="--rule")
        if sealing and not names and is_of_a_release(rule.name):
            said = f"{rule.name} is a name that only registered rules are given"
            raise typer.BadParameter(f"{said}; give yours a name of its own", param_hint="--rule")
        return
    if sealing:
        raise typer.BadParameter(f"{said}; give yours a name of its own", param_hint="--rule")
    say(f"note: {said}", err=True)


def _count(path: Path, rule: Rule, processes: int, trusted: Trusted, *, as_json: bool) -> None:
    from k3_ledger.cli.material import is_foreign, note_unshown, open_verified
    from k3_ledger.cli.trusting import list_unshown
    from k3_ledger.rescore.sweep import Along

    if is_foreign(path):
        raise typer.BadParameter("only a ledger can be counted: import the log first", param_hint="--counts")
    along = Along(rule)
    unshown = list_unshown(open_verified(path, processes, companion=along, trusted=trusted).report)
    note_unshown(unshown)
    found = along.result(processes=processes)
    imports = found.imports
    if imports and not found.tiers:
        raise typer.BadParameter(
            f"counts native receipts, and this ledger holds {imports} imports and none of these: leave --counts out",
            param_hint="--counts",
        )
    if imports:
        say(f"note: {imports} imports are not counted: leave --counts out to judge them too", err=True)
    if as_json:
        tiers, changes = dict(found.tiers), dict(found.changes)
        print_json(
            {
                "rule": rule.name,
                "tiers": tiers,
                "changes": changes,
                "imports_not_counted": imports,
                "left_out": dict(found.left_out),
                "not_admitted": found.not_admitted,
                "not_shown": unshown,
            }
        )
        return
    for tier, count in sorted(found.tiers.items(), key=lambda item: (-item[1], item[0])):
        say(f"{count:>9} {tier}")
    said = ", ".join(f"{count} {change}" for change, count in found.changes.most_common())
    say(f"{sum(found.tiers.values())} metrics of runs under {rule.name}; against published: {said or 'nothing'}")
    _print_left_out(found.left_out)
    if found.not_admitted:
        said = f"{found.not_admitted} are given a tier by their speed alone, and the rule would not have admitted them"
        say(f"  {said}: without --counts each is named, with the gate")
    for index, before, now in found.changed:
        say(f"  entry {index}: {before} -> {now}")


def _print_left_out(counts: Counter[str]) -> None:
    """Name what is in no row: metrics that a candidate timed and that are no measurement."""
    for reason, count in sorted(counts.items()):
        say(f"  {count} no measurement, so in no row: {reason}")


def _pins(text: str) -> Pins:
    if text in {"own", "tag"}:
        return text  # type: ignore[return-value]
    from k3_ledger.cli.given import PINS, given
    from k3_ledger.ledger.regular import read_small
    from k3_ledger.rescore.pins import read_pins

    with given(text, PINS):
        pins = read_pins(read_small(Path(text)), source=text)
    note_empty(Path(text), pins)
    return pins


def _moment(text: str | None, option: str) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a moment such as 2026-08-04T14:51:24Z", param_hint=option) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _print(report: RescoreReport, material: Material, left_out: Sequence[LeftOut], *, everything: bool) -> None:
    from collections import Counter

    from k3_ledger.cli.scored import print_rows

    shown = [row for row in report.rows if everything or row.change in {"lower", "higher", "other"}]
    if shown:
        print_rows(shown)
    counts = [
        f"{report.count(change)} {words}"  # type: ignore[arg-type]
        for change, words in (
            ("unchanged", "unchanged"),
            ("lower", "lower"),
            ("higher", "higher"),
            ("other", "changed otherwise"),
            ("first", "judged for the first time"),
            (
                "not-comparable",
                "not comparable (judged under a rule that nobody had published, or published with tiers that disagree)",
            ),
            ("not-scorable", "not scorable"),
        )
        if report.count(change) or change in {"unchanged", "lower", "higher", "not-scorable"}  # type: ignore[arg-type]
    ]
    runs = len({row.candidate.identity for row in report.rows})
    judged = f"{runs} runs" if runs == len(report.rows) else f"{len(report.rows)} metrics of {runs} runs"
    say(f"{judged} of a {material.source}: {', '.join(counts)}")
    _print_left_out(Counter(f"{one.metric}: {one.reason}" for one in left_out))
    for reason, count in report.reasons.most_common():
        say(f"  {count} {reason}")
    labels = {row.candidate.identity: row.candidate.label for row in report.rows}
    for identity, tier, said in report.not_admitted:
        say(f"  {labels[identity]} is given {tier} by its speed alone, and the rule would not have admitted it: {said}")
    lacking = sum(bool(row.lacks) for row in report.rows)
    if lacking:
        say(f"{lacking} of them lack something; --all names it run by run")


def _document(
    report: RescoreReport, material: Material, left_out: Sequence[LeftOut], rule: str, pins: str, against: str
) -> dict[str, Any]:
    from k3_ledger.rescore.rules.verdict import Verdict
    from k3_ledger.rescore.sealing import verdict_body

    return {
        "source": material.source,
        "rule": rule,
        "pins": pins,
        "against": against,
        "counts": {
            change: report.count(change)
            for change in ("unchanged", "lower", "higher", "other", "first", "not-comparable", "not-scorable")
        },
        "not_scorable": dict(report.reasons),
        "left_out": [
            {"run": one.identity, "index": one.index, "metric": one.metric, "reason": one.reason} for one in left_out
        ],
        "audit_errors": material.audit_errors,
        "not_shown": material.unshown,
        "repeated": material.repeats,
        "not_read": [finding.as_dict() for finding in material.unread],
        "runs": [
            {
                "run": row.candidate.identity,
                "index": row.candidate.index,
                "foreign_id": None if row.candidate.native else row.candidate.run.run,
                "pull_request": row.candidate.run.pull_request,
                "track": str(row.candidate.run.track),
                "superseded": row.candidate.superseded,
                "before": row.before,
                "change": row.change,
                "why": row.why,
                "lacks": list(row.lacks),
                "verdict": verdict_body(row.candidate.identity, row.result)
                if isinstance(row.result, Verdict)
                else None,
                "gates": [
                    {
                        "gate": gate.name,
                        "outcome": str(gate.outcome),
                        "reason": gate.reason,
                        "detail": gate.detail,
                        "steps": {step.name: step.text for step in gate.steps},
                    }
                    for gate in row.result.gates
                ]
                if isinstance(row.result, Verdict)
                else [],
            }
            for row in report.rows
        ],
    }


def _trace(pins: Sequence[PinRecord], material: Material) -> list[Finding]:
    """What is to be said of pins of a file whose sources do not bear them out: judged by all the same, and told."""
    from k3_ledger.rescore.reconcile import trace_pin

    found = [finding for pin in pins for finding in trace_pin(pin, material.measurements)]
    for finding in found:
        say(f"warning: {finding.position}: {finding.message} [{finding.code.id}]", err=True)
    return found


def _count_supposed(report: RescoreReport) -> int:
    """How many verdicts of a report state a pin from a file."""
    from k3_ledger.rescore.rules.verdict import Verdict

    verdicts = [row.result for row in report.rows if isinstance(row.result, Verdict)]
    return sum(any(pin.origin == "file" for pin in verdict.pins) for verdict in verdicts)


def _list_unknown(report: RescoreReport) -> list[str]:
    """Names of the rules of a report under which a verdict publishes nothing, for nobody knows them."""
    from k3_ledger.rescore.rules.verdict import Verdict
    from k3_ledger.rescore.standing import publishes

    found = [(row.result, row.candidate.known) for row in report.rows if isinstance(row.result, Verdict)]
    names = [one.rule for one, known in found if not publishes(one.rule_sha256, known, supposed=False)]
    return list(dict.fromkeys(names))


@contextmanager
def _writer(path: Path, key: Path, passphrase_file: Path | None, wait: float) -> Iterator[Writer]:
    """Appends what a judge's key signs; a key that may not is refused also where there is nothing to append."""
    from k3_ledger.ledger.writer.store import Ledger

    with Ledger.open(path).writer(load_key(key, passphrase_file), lock_timeout_s=wait) as writer:
        writer.check_may_sign("verdict")
        yield writer


def _is_head(log: VerifiedLog, state: LogState) -> bool:
    """Whether a ledger still ends where it ended when it was verified; its last entry commits to all before it."""
    head = log.report.head
    return head is not None and (head.size, head.last) == (state.entries, state.head.identity)


def _seal(writer: Writer, report: RescoreReport, time: str | None) -> tuple[int, int]:
    """Append the verdicts that are not there yet; how many that were, and how many there were."""
    from k3_ledger.ledger.writer.append import Draft
    from k3_ledger.rescore.sealing import new_verdicts

    drafts = [Draft("verdict", body, time) for body in new_verdicts(report)]
    writer.append_many(drafts)
    return len(drafts), sum(row.change != "not-scorable" for row in report.rows) - len(drafts)
