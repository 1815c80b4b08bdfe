"""Models of every entry kind of format version 1, as frozen pydantic classes that forbid unknown fields.

Values obey the canonical profile (:mod:`k3_ledger.schemas.canonical`): integers within ±(2**53 - 1), text, lists,
objects, true, false and null. Anything fractional is a :data:`Decimal` string; durations and offsets are integer
nanoseconds counted from the start of the run; sizes are bytes. ``docs/format.md`` is the prose of this module.

No field has a default: every field of a model is always written, ``null`` or ``[]`` where there is nothing to say, so
that one value has one encoding and "not measured" is a statement somebody signed.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from k3_ledger.schemas.canonical import MAX_INTEGER
from k3_ledger.schemas.envelope import Role

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""Lower-case hexadecimal SHA-256 digest or raw Ed25519 public key."""
KeyId = Hex64
"""Lower-case hexadecimal SHA-256 of a raw 32-byte Ed25519 public key."""
Decimal = Annotated[str, StringConstraints(pattern=r"^-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,40})?$")]
"""A decimal number as text. Never an exponent, a plus sign, a leading zero, NaN or infinity."""
BigInt = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,38})$")]
"""A non-negative integer that may pass 2**53 (absolute clock readings, FLOP counts), as text."""
Timestamp = Annotated[
    str,
    StringConstraints(
        pattern=(
            r"^(?:2[0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
            r"|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:2[0-9](?:0[48]|[2468][048]|[13579][26])|2[048]00)-02-29)"
            r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"
        )
    ),
]
"""UTC to the second, a day of the calendar between 2000 and 2999, without leap seconds. Claimed by the signer: order
comes from the chain, never from this."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+:@/-]{0,199}$")]
"""A short ASCII name: an engine, a metric, a node."""
FileName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._+@-]*(?:/[A-Za-z0-9_][A-Za-z0-9._+@-]*)*$", max_length=200),
]
"""A relative path in ASCII with ``/`` between parts. No part starts with a dot, so none of them climbs."""
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
"""Git object id of a commit, SHA-1 or SHA-256."""
Text = Annotated[str, StringConstraints(max_length=4096)]
"""Free text, at most 4,096 characters."""
Signature = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{85}[AQgw]==$")]
"""Strict base64 of a 64-byte Ed25519 signature: 88 characters, unused bits zero."""
Integer = Annotated[int, Field(ge=-MAX_INTEGER, le=MAX_INTEGER)]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, Field(ge=1, le=MAX_INTEGER)]


class Model(BaseModel):
    """Base of all models: frozen, strict types, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


# ---------------------------------------------------------------------------------------------- shared parts


class Artifact(Model):
    """A file that belongs to an entry, stored under ``blobs/sha256/`` and named here by its digest."""

    name: FileName
    sha256: Hex64
    size: Count
    media_type: Annotated[str, StringConstraints(pattern=r"^[a-z0-9.+-]+/[A-Za-z0-9.+-]+(;[ -~]{1,80})?$")]


class Software(Model):
    """One piece of software and its version, as the program itself reports it."""

    name: Name
    version: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Accelerator(Model):
    """One GPU or other accelerator of the node."""

    name: Text
    memory_bytes: Count
    driver: Text | None
    clock_mhz: Count | None
    clocks_locked: bool


class Node(Model):
    """The machine a run was measured on."""

    name: Name
    cpu: Text
    logical_cores: Positive
    memory_bytes: Count
    os: Text
    kernel: Text
    accelerators: Annotated[tuple[Accelerator, ...], Field(max_length=64)]


class Source(Model):
    """The source tree that the measured program was built from."""

    commit: Commit | None
    dirty: bool
    patch_sha256: Hex64 | None
    clean_builds: Count


class Subject(Model):
    """The program that was measured."""

    name: Name
    version: Text
    source: Source | None
    build_sha256: Hex64 | None
    """SHA-256 of what ran: a binary, a wheel, or a manifest of sources named in ``artifacts``."""


class WeightsRef(Model):
    """The model whose forward pass was measured."""

    name: Name
    architecture: Name
    quant: Name
    sha256: Hex64
    size: Count
    synthetic: bool


class Sample(Model):
    """One timed repetition.

    ``start_ns`` counts from the start of the run on the observer's monotonic clock, ``duration_ns`` is a difference
    on that same clock; ``count`` is how many of the series' units were done in it.
    """

    start_ns: Count
    duration_ns: Positive
    count: Positive


class Series(Model):
    """Raw repetitions of one metric as one observer saw them. No mean, no rate, no label: those are derived.

    Attributes:
        metric: what was done (``decode``, ``prefill``, ``verify``, ``append`` …).
        unit: what ``count`` counts (``token``, ``receipt``, ``entry``, ``byte`` …).
        actor: ``subject`` for the program under test, ``floor`` for the bare loop it is compared with in the same
            run, otherwise the name of a peer.
        observer: ``controller`` when timed from outside by another process, ``subject`` when self-reported.
        context: tokens of context in front of the timed region; null where the metric has none.
        context_filled: how many of those were real tokens rather than a seek over an empty cache.
        batch: sequences advanced together.
        warmup: repetitions run before the first sample and not recorded.
        inputs: ``fresh`` when every repetition had new input values, ``repeated`` when not.
        cache: ``cold``, ``warm`` or ``none``: state of any result or prefix cache.
    """

    metric: Name
    unit: Name
    actor: Name
    observer: Literal["controller", "subject"]
    context: Count | None
    context_filled: Count | None
    batch: Positive
    processes: Positive
    warmup: Count
    inputs: Literal["fresh", "repeated"]
    cache: Literal["cold", "warm", "none"]
    samples: Annotated[tuple[Sample, ...], Field(min_length=1, max_length=512)]


class ParityDepth(Model):
    """Agreement with the reference at one depth, over ``rows`` positions graded there."""

    depth: Positive
    rows: Positive
    kl_max: Decimal
    kl_mean: Decimal
    top1_agree: Count
    ties: Count
    near_ties: Count
    max_abs_logprob_difference: Decimal


class ParityReference(Model):
    """The engine whose logits were taken as right."""

    name: Name
    version: Text
    independent: bool
    """False when the reference is this project's own code: such a record can never earn a tier."""


class Parity(Model):
    """Full-vocabulary agreement on the very path that was timed."""

    reference: ParityReference
    prompt_sha256: Hex64
    vocabulary: Positive
    path: Literal["prefill", "decode", "both"]
    chunk: Positive | None
    processing: Literal["raw", "processed"]
    tie_rule: Literal["lowest-id"]
    near_tie_bound: Decimal
    depths: Annotated[tuple[ParityDepth, ...], Field(min_length=1, max_length=64)]


class RankMemory(Model):
    """Peak memory of one rank, in bytes."""

    rank: Count
    peak_bytes: Count
    device: Literal["host", "accelerator"]


class Flag(Model):
    """One engine flag as it was resolved, whatever its origin."""

    name: Name
    value: Text
    origin: Literal["default", "command", "environment"]


class ExpertLoad(Model):
    """How routing spread over experts in the timed region."""

    experts: Positive
    distinct: Count
    max_load: Count
    tokens: Positive


class Machine(Model):
    """Where and with what something ran: common to runs and failures."""

    node: Node
    software: Annotated[tuple[Software, ...], Field(max_length=64)]
    command: Annotated[tuple[Text, ...], Field(min_length=1, max_length=256)]
    started: Timestamp


class Tee(Model):
    """Trusted execution environment of the runner, when there was one."""

    kind: Literal["none", "tdx"]
    report_data_sha256: Hex64 | None


# ------------------------------------------------------------------------------------------------ entry bodies


class GenesisBody(Model):
    """First entry: names the log and pins its root key."""

    format: Literal["k3-ledger/1"]
    origin: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,198}$")]
    root_public_key: Hex64


class Endorsement(Model):
    """A further root's signature over a key action, for thresholds of k of n."""

    key: KeyId
    sig: Signature


class KeyBody(Model):
    """Enrols, rotates or revokes a key, from this log position on."""

    action: Literal["enrol", "rotate", "revoke"]
    role: Role
    key_id: KeyId
    public_key: Hex64
    """Raw Ed25519 public key of the key that is enrolled, rotated in or revoked."""
    name: Name
    replaces: KeyId | None
    """The key that a rotation retires; null otherwise."""
    revoked_from: Count | None
    """For ``revoke``: first index whose entries by this key no longer count; null means this entry's index."""
    reason: Text | None
    endorsements: Annotated[tuple[Endorsement, ...], Field(max_length=16)]


class Measured(Model):
    """What runs and failures have in common."""

    role: Literal["candidate", "frontier", "reference"]
    subject: Subject
    model: WeightsRef | None
    machine: Machine
    round: Name | None
    artifacts: Annotated[tuple[Artifact, ...], Field(max_length=256)]


class RunMeasurement(Measured):
    """A measurement: raw times, parity, memory and provenance. It holds no label."""

    timing: Annotated[tuple[Series, ...], Field(min_length=1, max_length=64)]
    parity: Parity | None
    memory: Annotated[tuple[RankMemory, ...], Field(max_length=1024)]
    flags: Annotated[tuple[Flag, ...], Field(max_length=256)]
    expert_load: ExpertLoad | None
    tee: Tee


class FailedMeasurement(Measured):
    """A run that did not finish: kept and counted, never nothing."""

    stage: Name
    reason: Text
    exit_status: Integer | None


class RunBody(RunMeasurement):
    """A sealed measurement."""

    bundle: Hex64
    """SHA-256 of the bundle's ``bundle.json``."""


class FailedBody(FailedMeasurement):
    """A sealed failure."""

    bundle: Hex64
    """SHA-256 of the bundle's ``bundle.json``."""


class PinUse(Model):
    """A pin as a verdict used it."""

    slot: Name
    value: Decimal
    source: Literal["pin", "receipt", "rule", "file", "history"]
    entry: Hex64 | None
    inferred: bool


class Step(Model):
    """One intermediate value of a verdict, exact, as text."""

    name: Name
    value: Text


class VerdictBody(Model):
    """A rule applied to a receipt. Anyone can re-derive it."""

    target: Hex64
    """Identity of the ``run`` or ``import`` entry that is judged."""
    rule: Name
    rule_sha256: Hex64
    pins: Annotated[tuple[PinUse, ...], Field(max_length=64)]
    metric: Name
    tier: Name
    bound_by: Name
    steps: Annotated[tuple[Step, ...], Field(max_length=256)]
    not_checked: Annotated[tuple[Name, ...], Field(max_length=64)]


class RuleBody(Model):
    """A frozen rule version, published in the ledger."""

    rule: Name
    rule_sha256: Hex64
    arithmetic: Name
    parameters: Annotated[tuple[Step, ...], Field(max_length=256)]


class PinBody(Model):
    """A frontier or reference value written down for others to score against."""

    slot: Name
    value: Decimal
    unit: Name
    source: Hex64
    """Identity of the entry it was measured in."""
    commit: Commit | None


class SupersedeBody(Model):
    """Says that an older entry no longer stands, and why. The old entry is never edited."""

    target: Hex64
    reason: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    replacement: Hex64 | None


class ImportBody(Model):
    """A foreign receipt: its original bytes are the artifacts, its extracted figures are a convenience."""

    format: Name
    """The foreign format, such as ``polaris/1``."""
    foreign_id: Name
    """The identifier the foreign log uses for it."""
    original_sha256: Hex64
    """SHA-256 of the foreign receipt's bytes (also an artifact), or of its first artifact when it has none."""
    attestation: Name
    """The foreign log's attestation type, such as ``tdx-quote``, ``ed25519`` or ``none``."""
    fields: Annotated[tuple[Step, ...], Field(max_length=256)]
    """Figures taken from the originals, each exact text with its source as name (``result.tps``)."""
    findings: Annotated[tuple[Name, ...], Field(max_length=64)]
    """Codes that the audit of this receipt raised."""
    artifacts: Annotated[tuple[Artifact, ...], Field(min_length=1, max_length=256)]


class RoundBody(Model):
    """One round on a pinned node: which receipts belong together."""

    round: Name
    node: Name
    rule: Name
    base_commit: Commit
    frontier: Hex64 | None
    runs: Annotated[tuple[Hex64, ...], Field(max_length=512)]


class MergeBody(Model):
    """A winner that was merged: explains why the next measurement of the frontier moved."""

    pull_request: Positive | None
    commit: Commit
    run: Hex64 | None
    """Identity of the winning receipt; null when it was never sealed."""
    claimed: Decimal | None
    slot: Name


class WitnessBody(Model):
    """A cosignature kept in the log for the record."""

    checkpoint_sha256: Hex64
    witness: Name
    cosignature: Text


class NoteBody(Model):
    """Words for the reader."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=32768)]
    artifacts: Annotated[tuple[Artifact, ...], Field(max_length=256)]


class Entry(Model):
    """Fields that every entry carries. Chain fields are inside the signed bytes."""

    index: Count
    prev: Hex64
    """Identity of the previous entry; for genesis, SHA-256 of the origin line (origin and LF)."""
    time: Timestamp
    key: KeyId


class GenesisEntry(Entry):
    """See :class:`GenesisBody`."""

    kind: Literal["genesis"]
    schema_: Literal["k3-ledger/genesis/1"] = Field(alias="schema")
    body: GenesisBody


class KeyEntry(Entry):
    """See :class:`KeyBody`."""

    kind: Literal["key"]
    schema_: Literal["k3-ledger/key/1"] = Field(alias="schema")
    body: KeyBody


class RunEntry(Entry):
    """See :class:`RunBody`."""

    kind: Literal["run"]
    schema_: Literal["k3-ledger/run/1"] = Field(alias="schema")
    body: RunBody


class VerdictEntry(Entry):
    """See :class:`VerdictBody`."""

    kind: Literal["verdict"]
    schema_: Literal["k3-ledger/verdict/1"] = Field(alias="schema")
    body: VerdictBody


class RuleEntry(Entry):
    """See :class:`RuleBody`."""

    kind: Literal["rule"]
    schema_: Literal["k3-ledger/rule/1"] = Field(alias="schema")
    body: RuleBody


class PinEntry(Entry):
    """See :class:`PinBody`."""

    kind: Literal["pin"]
    schema_: Literal["k3-ledger/pin/1"] = Field(alias="schema")
    body: PinBody


class SupersedeEntry(Entry):
    """See :class:`SupersedeBody`."""

    kind: Literal["supersede"]
    schema_: Literal["k3-ledger/supersede/1"] = Field(alias="schema")
    body: SupersedeBody


class ImportEntry(Entry):
    """See :class:`ImportBody`."""

    kind: Literal["import"]
    schema_: Literal["k3-ledger/import/1"] = Field(alias="schema")
    body: ImportBody


class RoundEntry(Entry):
    """See :class:`RoundBody`."""

    kind: Literal["round"]
    schema_: Literal["k3-ledger/round/1"] = Field(alias="schema")
    body: RoundBody


class MergeEntry(Entry):
    """See :class:`MergeBody`."""

    kind: Literal["merge"]
    schema_: Literal["k3-ledger/merge/1"] = Field(alias="schema")
    body: MergeBody


class FailedEntry(Entry):
    """See :class:`FailedBody`."""

    kind: Literal["failed"]
    schema_: Literal["k3-ledger/failed/1"] = Field(alias="schema")
    body: FailedBody


class WitnessEntry(Entry):
    """See :class:`WitnessBody`."""

    kind: Literal["witness"]
    schema_: Literal["k3-ledger/witness/1"] = Field(alias="schema")
    body: WitnessBody


class NoteEntry(Entry):
    """See :class:`NoteBody`."""

    kind: Literal["note"]
    schema_: Literal["k3-ledger/note/1"] = Field(alias="schema")
    body: NoteBody


AnyEntry = Annotated[
    GenesisEntry
    | KeyEntry
    | RunEntry
    | VerdictEntry
    | RuleEntry
    | PinEntry
    | SupersedeEntry
    | ImportEntry
    | RoundEntry
    | MergeEntry
    | FailedEntry
    | WitnessEntry
    | NoteEntry,
    Field(discriminator="kind"),
]
"""Any entry of format version 1, told apart by ``kind``."""
ENTRIES: Final[dict[str, type[Entry]]] = {
    get_args(model.model_fields["kind"].annotation)[0]: model for model in get_args(get_args(AnyEntry)[0])
}
"""Model of the entry of each kind."""
BODIES: Final[dict[str, type[Model]]] = {
    kind: cast("type[Model]", model.model_fields["body"].annotation) for kind, model in ENTRIES.items()
}
"""Model of the body of each kind."""


class RunBundle(Model):
    """``bundle.json`` of a run: the receipt-to-be, in the same canonical profile.

    It lacks only ``bundle``, the SHA-256 of this very file, which sealing adds. Artifacts stand beside it as
    ``blobs/<sha256>``.
    """

    schema_: Literal["k3-ledger/bundle/1"] = Field(alias="schema")
    kind: Literal["run"]
    body: RunMeasurement

    def sealed(self, digest: str) -> RunBody:
        """The body of the receipt for this bundle, whose ``bundle.json`` has the SHA-256 ``digest``."""
        return RunBody(bundle=digest, **dict(self.body))


class FailedBundle(Model):
    """``bundle.json`` of a run that did not finish; see :class:`RunBundle`."""

    schema_: Literal["k3-ledger/bundle/1"] = Field(alias="schema")
    kind: Literal["failed"]
    body: FailedMeasurement

    def sealed(self, digest: str) -> FailedBody:
        """The body of the entry for this bundle, whose ``bundle.json`` has the SHA-256 ``digest``."""
        return FailedBody(bundle=digest, **dict(self.body))


Bundle = Annotated[RunBundle | FailedBundle, Field(discriminator="kind")]
"""The unsigned output of a run, told apart by ``kind``."""
BUNDLES: Final[dict[str, type[RunBundle | FailedBundle]]] = {"run": RunBundle, "failed": FailedBundle}
"""Model of the bundle of each kind."""
