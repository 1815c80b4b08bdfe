"""The models as msgspec structs: the fast half of validation.

GENERATED from ``models.py`` by ``python -m k3_ledger.schemas.generate``; do not edit.

:func:`decode_entry` says "valid" or nothing. Typed decoding checks every field; writing the result again and comparing
proves the bytes canonical, since duplicate keys, white space, other escapes and other number spellings do not survive
the comparison. Whatever is refused here goes to :func:`k3_ledger.schemas.validate.parse_entry`, which decides and
explains. A test holds the two equal. Fields are declared in sorted order because msgspec writes them as declared.

A struct by itself does not check patterns; :func:`decode_entry` matches all texts of one type together, which takes a
third off the whole.
"""

# fmt: off
# ruff: noqa: C901, E501, PERF401, PLR0912 - generated: lines are as long as constraints, functions as structs

from __future__ import annotations

from collections.abc import Callable
from re import compile as compile_pattern
from typing import Annotated, Any, Literal

from msgspec import DecodeError, Meta, Struct, ValidationError, convert, field
from msgspec.json import Decoder, Encoder

from k3_ledger.schemas.envelope import MAX_ENTRY

Commit = str
Count = Annotated[int, Meta(ge=0, le=9007199254740991)]
Decimal = str
FileName = Annotated[str, Meta(max_length=200)]
Hex64 = str
Integer = Annotated[int, Meta(ge=-9007199254740991, le=9007199254740991)]
MediaType = Annotated[str, Meta(max_length=200)]
Name = str
Origin = str
Positive = Annotated[int, Meta(ge=1, le=9007199254740991)]
Signature = str
Text = Annotated[str, Meta(max_length=4096)]
Timestamp = str


class Wire(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """Base of all structs: frozen, unknown fields refused, every field required."""


class Accelerator(Wire, frozen=True):
    """See ``models.Accelerator``."""

    clock_mhz: Count | None
    clocks_locked: bool
    driver: Text | None
    memory_bytes: Count
    name: Text


class Artifact(Wire, frozen=True):
    """See ``models.Artifact``."""

    media_type: MediaType
    name: FileName
    sha256: Hex64
    size: Count


class Endorsement(Wire, frozen=True):
    """See ``models.Endorsement``."""

    key: Hex64
    sig: Signature


class ExpertLoad(Wire, frozen=True):
    """See ``models.ExpertLoad``."""

    distinct: Count
    experts: Positive
    max_load: Count
    tokens: Positive


class Source(Wire, frozen=True):
    """See ``models.Source``."""

    clean_builds: Count
    commit: Commit | None
    dirty: bool
    patch_sha256: Hex64 | None


class Subject(Wire, frozen=True):
    """See ``models.Subject``."""

    build_sha256: Hex64 | None
    name: Name
    source: Source | None
    version: Text


class WeightsRef(Wire, frozen=True):
    """See ``models.WeightsRef``."""

    architecture: Name
    name: Name
    quant: Name
    sha256: Hex64
    size: Count
    synthetic: bool


class Node(Wire, frozen=True):
    """See ``models.Node``."""

    accelerators: Annotated[tuple[Accelerator, ...], Meta(max_length=64)]
    cpu: Text
    kernel: Text
    logical_cores: Positive
    memory_bytes: Count
    name: Name
    os: Text


class Software(Wire, frozen=True):
    """See ``models.Software``."""

    name: Name
    version: Annotated[str, Meta(min_length=1, max_length=200)]


class Machine(Wire, frozen=True):
    """See ``models.Machine``."""

    command: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=256)]
    node: Node
    software: Annotated[tuple[Software, ...], Meta(max_length=64)]
    started: Timestamp


class FailedBody(Wire, frozen=True):
    """See ``models.FailedBody``."""

    artifacts: Annotated[tuple[Artifact, ...], Meta(max_length=256)]
    bundle: Hex64
    exit_status: Integer | None
    machine: Machine
    model: WeightsRef | None
    reason: Text
    role: Literal["candidate", "frontier", "reference"]
    round: Name | None
    stage: Name
    subject: Subject


class FailedEntry(Wire, frozen=True):
    """See ``models.FailedEntry``."""

    body: FailedBody
    index: Count
    key: Hex64
    kind: Literal["failed"]
    prev: Hex64
    schema_: Literal["k3-ledger/failed/1"] = field(name="schema")
    time: Timestamp


class Flag(Wire, frozen=True):
    """See ``models.Flag``."""

    name: Name
    origin: Literal["default", "command", "environment"]
    value: Text


class GenesisBody(Wire, frozen=True):
    """See ``models.GenesisBody``."""

    format: Literal["k3-ledger/1"]
    origin: Origin
    root_public_key: Hex64


class GenesisEntry(Wire, frozen=True):
    """See ``models.GenesisEntry``."""

    body: GenesisBody
    index: Count
    key: Hex64
    kind: Literal["genesis"]
    prev: Hex64
    schema_: Literal["k3-ledger/genesis/1"] = field(name="schema")
    time: Timestamp


class Step(Wire, frozen=True):
    """See ``models.Step``."""

    name: Name
    value: Text


class ImportBody(Wire, frozen=True):
    """See ``models.ImportBody``."""

    artifacts: Annotated[tuple[Artifact, ...], Meta(min_length=1, max_length=256)]
    attestation: Name
    fields: Annotated[tuple[Step, ...], Meta(max_length=256)]
    findings: Annotated[tuple[Name, ...], Meta(max_length=64)]
    foreign_id: Name
    format: Name
    original_sha256: Hex64


class ImportEntry(Wire, frozen=True):
    """See ``models.ImportEntry``."""

    body: ImportBody
    index: Count
    key: Hex64
    kind: Literal["import"]
    prev: Hex64
    schema_: Literal["k3-ledger/import/1"] = field(name="schema")
    time: Timestamp


class KeyBody(Wire, frozen=True):
    """See ``models.KeyBody``."""

    action: Literal["enrol", "rotate", "revoke"]
    endorsements: Annotated[tuple[Endorsement, ...], Meta(max_length=16)]
    key_id: Hex64
    name: Name
    public_key: Hex64
    reason: Text | None
    replaces: Hex64 | None
    revoked_from: Count | None
    role: Literal["root", "log", "runner", "judge", "witness"]


class KeyEntry(Wire, frozen=True):
    """See ``models.KeyEntry``."""

    body: KeyBody
    index: Count
    key: Hex64
    kind: Literal["key"]
    prev: Hex64
    schema_: Literal["k3-ledger/key/1"] = field(name="schema")
    time: Timestamp


class MergeBody(Wire, frozen=True):
    """See ``models.MergeBody``."""

    claimed: Decimal | None
    commit: Commit
    pull_request: Positive | None
    run: Hex64 | None
    slot: Name


class MergeEntry(Wire, frozen=True):
    """See ``models.MergeEntry``."""

    body: MergeBody
    index: Count
    key: Hex64
    kind: Literal["merge"]
    prev: Hex64
    schema_: Literal["k3-ledger/merge/1"] = field(name="schema")
    time: Timestamp


class NoteBody(Wire, frozen=True):
    """See ``models.NoteBody``."""

    artifacts: Annotated[tuple[Artifact, ...], Meta(max_length=256)]
    text: Annotated[str, Meta(min_length=1, max_length=32768)]


class NoteEntry(Wire, frozen=True):
    """See ``models.NoteEntry``."""

    body: NoteBody
    index: Count
    key: Hex64
    kind: Literal["note"]
    prev: Hex64
    schema_: Literal["k3-ledger/note/1"] = field(name="schema")
    time: Timestamp


class ParityReference(Wire, frozen=True):
    """See ``models.ParityReference``."""

    independent: bool
    name: Name
    version: Text


class ParityDepth(Wire, frozen=True):
    """See ``models.ParityDepth``."""

    depth: Positive
    kl_max: Decimal
    kl_mean: Decimal
    max_abs_logprob_difference: Decimal
    near_ties: Count
    rows: Positive
    ties: Count
    top1_agree: Count


class Parity(Wire, frozen=True):
    """See ``models.Parity``."""

    chunk: Positive | None
    depths: Annotated[tuple[ParityDepth, ...], Meta(min_length=1, max_length=64)]
    near_tie_bound: Decimal
    path: Literal["prefill", "decode", "both"]
    processing: Literal["raw", "processed"]
    prompt_sha256: Hex64
    reference: ParityReference
    tie_rule: Literal["lowest-id"]
    vocabulary: Positive


class PinBody(Wire, frozen=True):
    """See ``models.PinBody``."""

    commit: Commit | None
    slot: Name
    source: Hex64
    unit: Name
    value: Decimal


class PinEntry(Wire, frozen=True):
    """See ``models.PinEntry``."""

    body: PinBody
    index: Count
    key: Hex64
    kind: Literal["pin"]
    prev: Hex64
    schema_: Literal["k3-ledger/pin/1"] = field(name="schema")
    time: Timestamp


class PinUse(Wire, frozen=True):
    """See ``models.PinUse``."""

    entry: Hex64 | None
    inferred: bool
    slot: Name
    source: Literal["pin", "receipt", "rule", "file", "history"]
    value: Decimal


class RankMemory(Wire, frozen=True):
    """See ``models.RankMemory``."""

    device: Literal["host", "accelerator"]
    peak_bytes: Count
    rank: Count


class RoundBody(Wire, frozen=True):
    """See ``models.RoundBody``."""

    base_commit: Commit
    frontier: Hex64 | None
    node: Name
    round: Name
    rule: Name
    runs: Annotated[tuple[Hex64, ...], Meta(max_length=512)]


class RoundEntry(Wire, frozen=True):
    """See ``models.RoundEntry``."""

    body: RoundBody
    index: Count
    key: Hex64
    kind: Literal["round"]
    prev: Hex64
    schema_: Literal["k3-ledger/round/1"] = field(name="schema")
    time: Timestamp


class RuleBody(Wire, frozen=True):
    """See ``models.RuleBody``."""

    arithmetic: Name
    parameters: Annotated[tuple[Step, ...], Meta(max_length=256)]
    rule: Name
    rule_sha256: Hex64


class RuleEntry(Wire, frozen=True):
    """See ``models.RuleEntry``."""

    body: RuleBody
    index: Count
    key: Hex64
    kind: Literal["rule"]
    prev: Hex64
    schema_: Literal["k3-ledger/rule/1"] = field(name="schema")
    time: Timestamp


class Sample(Wire, frozen=True):
    """See ``models.Sample``."""

    count: Positive
    duration_ns: Positive
    start_ns: Count


class Series(Wire, frozen=True):
    """See ``models.Series``."""

    actor: Name
    batch: Positive
    cache: Literal["cold", "warm", "none"]
    context: Count | None
    context_filled: Count | None
    inputs: Literal["fresh", "repeated"]
    metric: Name
    observer: Literal["controller", "subject"]
    processes: Positive
    samples: Annotated[tuple[Sample, ...], Meta(min_length=1, max_length=512)]
    unit: Name
    warmup: Count


class Tee(Wire, frozen=True):
    """See ``models.Tee``."""

    kind: Literal["none", "tdx"]
    report_data_sha256: Hex64 | None


class RunBody(Wire, frozen=True):
    """See ``models.RunBody``."""

    artifacts: Annotated[tuple[Artifact, ...], Meta(max_length=256)]
    bundle: Hex64
    expert_load: ExpertLoad | None
    flags: Annotated[tuple[Flag, ...], Meta(max_length=256)]
    machine: Machine
    memory: Annotated[tuple[RankMemory, ...], Meta(max_length=1024)]
    model: WeightsRef | None
    parity: Parity | None
    role: Literal["candidate", "frontier", "reference"]
    round: Name | None
    subject: Subject
    tee: Tee
    timing: Annotated[tuple[Series, ...], Meta(min_length=1, max_length=64)]


class RunEntry(Wire, frozen=True):
    """See ``models.RunEntry``."""

    body: RunBody
    index: Count
    key: Hex64
    kind: Literal["run"]
    prev: Hex64
    schema_: Literal["k3-ledger/run/1"] = field(name="schema")
    time: Timestamp


class SupersedeBody(Wire, frozen=True):
    """See ``models.SupersedeBody``."""

    reason: Annotated[str, Meta(min_length=1, max_length=4096)]
    replacement: Hex64 | None
    target: Hex64


class SupersedeEntry(Wire, frozen=True):
    """See ``models.SupersedeEntry``."""

    body: SupersedeBody
    index: Count
    key: Hex64
    kind: Literal["supersede"]
    prev: Hex64
    schema_: Literal["k3-ledger/supersede/1"] = field(name="schema")
    time: Timestamp


class ThresholdBody(Wire, frozen=True):
    """See ``models.ThresholdBody``."""

    endorsements: Annotated[tuple[Endorsement, ...], Meta(max_length=16)]
    reason: Text | None
    threshold: Annotated[int, Meta(ge=1, le=17)]


class ThresholdEntry(Wire, frozen=True):
    """See ``models.ThresholdEntry``."""

    body: ThresholdBody
    index: Count
    key: Hex64
    kind: Literal["threshold"]
    prev: Hex64
    schema_: Literal["k3-ledger/threshold/1"] = field(name="schema")
    time: Timestamp


class VerdictBody(Wire, frozen=True):
    """See ``models.VerdictBody``."""

    bound_by: Name
    metric: Name
    not_checked: Annotated[tuple[Name, ...], Meta(max_length=64)]
    pins: Annotated[tuple[PinUse, ...], Meta(max_length=64)]
    rule: Name
    rule_sha256: Hex64
    steps: Annotated[tuple[Step, ...], Meta(max_length=256)]
    target: Hex64
    tier: Name


class VerdictEntry(Wire, frozen=True):
    """See ``models.VerdictEntry``."""

    body: VerdictBody
    index: Count
    key: Hex64
    kind: Literal["verdict"]
    prev: Hex64
    schema_: Literal["k3-ledger/verdict/1"] = field(name="schema")
    time: Timestamp


class WitnessBody(Wire, frozen=True):
    """See ``models.WitnessBody``."""

    checkpoint_sha256: Hex64
    cosignature: Text
    witness: Name


class WitnessEntry(Wire, frozen=True):
    """See ``models.WitnessEntry``."""

    body: WitnessBody
    index: Count
    key: Hex64
    kind: Literal["witness"]
    prev: Hex64
    schema_: Literal["k3-ledger/witness/1"] = field(name="schema")
    time: Timestamp


AnyEntryStruct = (
    GenesisEntry | KeyEntry | ThresholdEntry | RunEntry | VerdictEntry | RuleEntry | PinEntry | SupersedeEntry | ImportEntry | RoundEntry | MergeEntry | FailedEntry | WitnessEntry | NoteEntry
)

_HEX64 = r"[0-9a-f]{64}"
_COMMIT = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_DECIMAL = r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,40})?"
_TIMESTAMP = r"(?:2[0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:2[0-9](?:0[48]|[2468][048]|[13579][26])|2[048]00)-02-29)T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._+:@/-]{0,199}"
_FILENAME = r"[A-Za-z0-9_][A-Za-z0-9._+@-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+@-]*)*"
_MEDIATYPE = r"[a-z0-9.+-]+/[A-Za-z0-9.+-]+(?:;[!-~]{1,80})?"
_ORIGIN = r"[A-Za-z0-9][A-Za-z0-9._/:-]{0,198}"
_SIGNATURE = r"[A-Za-z0-9+/]{85}[AQgw]=="


def _texts_of_genesis(entry: GenesisEntry) -> list[str]:
    hex64: list[str] = []
    origin: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    origin.append(v1.origin)
    hex64.append(v1.root_public_key)
    return [*hex64, "", *origin, "", *timestamp, ""]


def _texts_of_key(entry: KeyEntry) -> list[str]:
    hex64: list[str] = []
    name: list[str] = []
    signature: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    hex64 += (v1.key_id, v1.public_key)
    name.append(v1.name)
    for v2 in v1.endorsements:
        hex64.append(v2.key)
        signature.append(v2.sig)
    if (v4 := v1.replaces) is not None:
        hex64.append(v4)
    return [*hex64, "", *name, "", *signature, "", *timestamp, ""]


def _texts_of_threshold(entry: ThresholdEntry) -> list[str]:
    hex64: list[str] = []
    signature: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    for v2 in v1.endorsements:
        hex64.append(v2.key)
        signature.append(v2.sig)
    return [*hex64, "", *signature, "", *timestamp, ""]


def _texts_of_run(entry: RunEntry) -> list[str]:
    commit: list[str] = []
    decimal: list[str] = []
    filename: list[str] = []
    hex64: list[str] = []
    mediatype: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    hex64.append(v1.bundle)
    for v2 in v1.artifacts:
        mediatype.append(v2.media_type)
        filename.append(v2.name)
        hex64.append(v2.sha256)
    for v4 in v1.flags:
        name.append(v4.name)
    v5 = v1.machine
    timestamp.append(v5.started)
    v7 = v5.node
    name.append(v7.name)
    for v11 in v5.software:
        name.append(v11.name)
    if (v13 := v1.model) is not None:
        name += (v13.architecture, v13.name, v13.quant)
        hex64.append(v13.sha256)
    if (v14 := v1.parity) is not None:
        decimal.append(v14.near_tie_bound)
        hex64.append(v14.prompt_sha256)
        for v16 in v14.depths:
            decimal += (v16.kl_max, v16.kl_mean, v16.max_abs_logprob_difference)
        v17 = v14.reference
        name.append(v17.name)
    if (v18 := v1.round) is not None:
        name.append(v18)
    v19 = v1.subject
    name.append(v19.name)
    if (v20 := v19.build_sha256) is not None:
        hex64.append(v20)
    if (v21 := v19.source) is not None:
        if (v22 := v21.commit) is not None:
            commit.append(v22)
        if (v23 := v21.patch_sha256) is not None:
            hex64.append(v23)
    v24 = v1.tee
    if (v25 := v24.report_data_sha256) is not None:
        hex64.append(v25)
    for v26 in v1.timing:
        name += (v26.actor, v26.metric, v26.unit)
    return [*commit, "", *decimal, "", *filename, "", *hex64, "", *mediatype, "", *name, "", *timestamp, ""]


def _texts_of_verdict(entry: VerdictEntry) -> list[str]:
    decimal: list[str] = []
    hex64: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    name += (v1.bound_by, v1.metric, v1.rule, v1.tier)
    hex64 += (v1.rule_sha256, v1.target)
    name += v1.not_checked
    for v2 in v1.pins:
        name.append(v2.slot)
        decimal.append(v2.value)
        if (v3 := v2.entry) is not None:
            hex64.append(v3)
    for v4 in v1.steps:
        name.append(v4.name)
    return [*decimal, "", *hex64, "", *name, "", *timestamp, ""]


def _texts_of_rule(entry: RuleEntry) -> list[str]:
    hex64: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    name += (v1.arithmetic, v1.rule)
    hex64.append(v1.rule_sha256)
    for v2 in v1.parameters:
        name.append(v2.name)
    return [*hex64, "", *name, "", *timestamp, ""]


def _texts_of_pin(entry: PinEntry) -> list[str]:
    commit: list[str] = []
    decimal: list[str] = []
    hex64: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    name += (v1.slot, v1.unit)
    hex64.append(v1.source)
    decimal.append(v1.value)
    if (v2 := v1.commit) is not None:
        commit.append(v2)
    return [*commit, "", *decimal, "", *hex64, "", *name, "", *timestamp, ""]


def _texts_of_supersede(entry: SupersedeEntry) -> list[str]:
    hex64: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    hex64.append(v1.target)
    if (v2 := v1.replacement) is not None:
        hex64.append(v2)
    return [*hex64, "", *timestamp, ""]


def _texts_of_import(entry: ImportEntry) -> list[str]:
    filename: list[str] = []
    hex64: list[str] = []
    mediatype: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    name += (v1.attestation, v1.foreign_id, v1.format)
    hex64.append(v1.original_sha256)
    for v2 in v1.artifacts:
        mediatype.append(v2.media_type)
        filename.append(v2.name)
        hex64.append(v2.sha256)
    for v3 in v1.fields:
        name.append(v3.name)
    name += v1.findings
    return [*filename, "", *hex64, "", *mediatype, "", *name, "", *timestamp, ""]


def _texts_of_round(entry: RoundEntry) -> list[str]:
    commit: list[str] = []
    hex64: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    commit.append(v1.base_commit)
    name += (v1.node, v1.round, v1.rule)
    if (v2 := v1.frontier) is not None:
        hex64.append(v2)
    hex64 += v1.runs
    return [*commit, "", *hex64, "", *name, "", *timestamp, ""]


def _texts_of_merge(entry: MergeEntry) -> list[str]:
    commit: list[str] = []
    decimal: list[str] = []
    hex64: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    commit.append(v1.commit)
    name.append(v1.slot)
    if (v2 := v1.claimed) is not None:
        decimal.append(v2)
    if (v4 := v1.run) is not None:
        hex64.append(v4)
    return [*commit, "", *decimal, "", *hex64, "", *name, "", *timestamp, ""]


def _texts_of_failed(entry: FailedEntry) -> list[str]:
    commit: list[str] = []
    filename: list[str] = []
    hex64: list[str] = []
    mediatype: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    hex64.append(v1.bundle)
    name.append(v1.stage)
    for v2 in v1.artifacts:
        mediatype.append(v2.media_type)
        filename.append(v2.name)
        hex64.append(v2.sha256)
    v4 = v1.machine
    timestamp.append(v4.started)
    v6 = v4.node
    name.append(v6.name)
    for v10 in v4.software:
        name.append(v10.name)
    if (v11 := v1.model) is not None:
        name += (v11.architecture, v11.name, v11.quant)
        hex64.append(v11.sha256)
    if (v12 := v1.round) is not None:
        name.append(v12)
    v13 = v1.subject
    name.append(v13.name)
    if (v14 := v13.build_sha256) is not None:
        hex64.append(v14)
    if (v15 := v13.source) is not None:
        if (v16 := v15.commit) is not None:
            commit.append(v16)
        if (v17 := v15.patch_sha256) is not None:
            hex64.append(v17)
    return [*commit, "", *filename, "", *hex64, "", *mediatype, "", *name, "", *timestamp, ""]


def _texts_of_witness(entry: WitnessEntry) -> list[str]:
    hex64: list[str] = []
    name: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    hex64.append(v1.checkpoint_sha256)
    name.append(v1.witness)
    return [*hex64, "", *name, "", *timestamp, ""]


def _texts_of_note(entry: NoteEntry) -> list[str]:
    filename: list[str] = []
    hex64: list[str] = []
    mediatype: list[str] = []
    timestamp: list[str] = []
    hex64 += (entry.key, entry.prev)
    timestamp.append(entry.time)
    v1 = entry.body
    for v2 in v1.artifacts:
        mediatype.append(v2.media_type)
        filename.append(v2.name)
        hex64.append(v2.sha256)
    return [*filename, "", *hex64, "", *mediatype, "", *timestamp, ""]


_Gather = Callable[[Any], list[str]]
_KINDS: dict[bytes, tuple[type[AnyEntryStruct], _Gather, tuple[str, ...]]] = {
    b"k3-ledger/genesis/1": (GenesisEntry, _texts_of_genesis, (_HEX64, _ORIGIN, _TIMESTAMP)),
    b"k3-ledger/key/1": (KeyEntry, _texts_of_key, (_HEX64, _NAME, _SIGNATURE, _TIMESTAMP)),
    b"k3-ledger/threshold/1": (ThresholdEntry, _texts_of_threshold, (_HEX64, _SIGNATURE, _TIMESTAMP)),
    b"k3-ledger/run/1": (RunEntry, _texts_of_run, (_COMMIT, _DECIMAL, _FILENAME, _HEX64, _MEDIATYPE, _NAME, _TIMESTAMP)),
    b"k3-ledger/verdict/1": (VerdictEntry, _texts_of_verdict, (_DECIMAL, _HEX64, _NAME, _TIMESTAMP)),
    b"k3-ledger/rule/1": (RuleEntry, _texts_of_rule, (_HEX64, _NAME, _TIMESTAMP)),
    b"k3-ledger/pin/1": (PinEntry, _texts_of_pin, (_COMMIT, _DECIMAL, _HEX64, _NAME, _TIMESTAMP)),
    b"k3-ledger/supersede/1": (SupersedeEntry, _texts_of_supersede, (_HEX64, _TIMESTAMP)),
    b"k3-ledger/import/1": (ImportEntry, _texts_of_import, (_FILENAME, _HEX64, _MEDIATYPE, _NAME, _TIMESTAMP)),
    b"k3-ledger/round/1": (RoundEntry, _texts_of_round, (_COMMIT, _HEX64, _NAME, _TIMESTAMP)),
    b"k3-ledger/merge/1": (MergeEntry, _texts_of_merge, (_COMMIT, _DECIMAL, _HEX64, _NAME, _TIMESTAMP)),
    b"k3-ledger/failed/1": (FailedEntry, _texts_of_failed, (_COMMIT, _FILENAME, _HEX64, _MEDIATYPE, _NAME, _TIMESTAMP)),
    b"k3-ledger/witness/1": (WitnessEntry, _texts_of_witness, (_HEX64, _NAME, _TIMESTAMP)),
    b"k3-ledger/note/1": (NoteEntry, _texts_of_note, (_FILENAME, _HEX64, _MEDIATYPE, _TIMESTAMP)),
}
_known: dict[bytes, _Known] = {}
_encode = Encoder().encode


class _Known:
    """What reads and writes entries of one schema. Building it takes longer than a small log takes to verify."""

    __slots__ = ("decode", "gather", "match", "struct")

    def __init__(self, schema: bytes) -> None:
        self.struct, self.gather, patterns = _KINDS[schema]
        self.decode = Decoder(self.struct).decode
        whole = "".join(rf"(?:(?:{pattern})\n)*\n" for pattern in patterns)
        self.match = compile_pattern(whole + r"\Z").match

    def texts_match(self, value: AnyEntryStruct) -> bool:
        texts = self.gather(value)
        joined = "\n".join(texts) + "\n"
        return joined.count("\n") == len(texts) and self.match(joined) is not None


def _lookup(schema: bytes) -> _Known | None:
    if schema not in _known:
        if schema not in _KINDS:
            return None
        _known[schema] = _Known(schema)
    return _known[schema]


def decode_entry(entry: bytes) -> AnyEntryStruct | None:
    """Decode a valid canonical entry; ``None`` says only that the slow path has to look."""
    if len(entry) > MAX_ENTRY:
        return None
    # What follows the schema is of constant length, so it can be cut out without parsing. A wrong cut costs nothing:
    # the decoder that it picks refuses any other schema.
    known = _lookup(entry[entry.rfind(b'"schema":"') + 10 : -32])
    if known is None:
        return None
    try:
        value = known.decode(entry)
    except (DecodeError, UnicodeDecodeError):  # msgspec up to 0.19 raises the latter for bytes that are not UTF-8
        return None
    return value if _encode(value) == entry and known.texts_match(value) else None


def encode_entry(values: dict[str, object]) -> tuple[bytes, AnyEntryStruct] | None:
    """Write a valid entry from plain values; ``None`` says only that the slow path has to look.

    The bytes are canonical: they are what :func:`decode_entry` would write again and compare.
    """
    known = _lookup(str(values["schema"]).encode())
    if known is None:
        return None
    try:
        value = convert(values, known.struct)
        entry = _encode(value)
    except (ValidationError, TypeError, UnicodeEncodeError):
        return None
    return (entry, value) if len(entry) <= MAX_ENTRY and known.texts_match(value) else None
