"""Models of every entry kind of format version 1, as frozen pydantic classes that forbid unknown fields.

Values obey the canonical profile (:mod:`k3_ledger.schemas.canonical`): integers within ±(2**53 - 1), text, lists,
objects, true, false and null. Anything fractional is a :data:`Decimal` string; durations and offsets are integer
nanoseconds counted from the start of the run; sizes are bytes. ``docs/format.md`` is the prose of this module.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_INT = 2**53 - 1

Hex64 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""Lower-case hexadecimal SHA-256 digest or raw Ed25519 public key."""
KeyId = Hex64
"""Lower-case hexadecimal SHA-256 of a raw 32-byte Ed25519 public key."""
Decimal = Annotated[str, StringConstraints(pattern=r"^-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,40})?$")]
"""A decimal number as text. Never an exponent, a plus sign, a leading zero, NaN or infinity."""
BigInt = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,38})$")]
"""A non-negative integer that may pass 2**53 (absolute clock readings, FLOP counts), as text."""
Timestamp = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
"""UTC to the second. Claimed by the signer: order comes from the chain, never from this."""
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+:@/-]{0,199}$")]
"""A short ASCII name: an engine, a metric, a node, a file inside a bundle."""
Text = Annotated[str, StringConstraints(max_length=4096)]
"""Free text, at most 4,096 characters."""
Signature = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{85}[AQgw]==$")]
"""Strict base64 of a 64-byte Ed25519 signature: 88 characters, unused bits zero."""
Count = Annotated[int, Field(ge=0, le=MAX_INT)]
Positive = Annotated[int, Field(ge=1, le=MAX_INT)]
Role = Literal["root", "log", "runner", "judge", "witness"]


class Model(BaseModel):
    """Base of all models: frozen, strict types, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True)


# ---------------------------------------------------------------------------------------------- shared parts


class Artifact(Model):
    """A file that belongs to an entry, stored under ``blobs/sha256/`` and named here by its digest."""

    name: Name
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
    driver: Text | None = None
    clock_mhz: Count | None = None
    clocks_locked: bool = False


class Node(Model):
    """The machine a run was measured on."""

    name: Name
    cpu: Text
    logical_cores: Positive
    memory_bytes: Count
    os: Text
    kernel: Text
    accelerators: tuple[Accelerator, ...] = ()


class Source(Model):
    """The source tree that the measured program was built from."""

    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")] | None
    dirty: bool
    patch_sha256: Hex64 | None = None
    clean_builds: Count = 0


class Subject(Model):
    """The program that was measured."""

    name: Name
    version: Text
    source: Source | None = None
    build_sha256: Hex64 | None = None
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
    context: Count | None = None
    context_filled: Count | None = None
    batch: Positive = 1
    processes: Positive = 1
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
    chunk: Positive | None = None
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
    software: tuple[Software, ...]
    command: Annotated[tuple[Text, ...], Field(min_length=1, max_length=256)]
    started: Timestamp


class Tee(Model):
    """Trusted execution environment of the runner, when there was one."""

    kind: Literal["none", "tdx"]
    report_data_sha256: Hex64 | None = None


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
    replaces: KeyId | None = None
    """The key that a rotation retires; null otherwise."""
    revoked_from: Count | None = None
    """For ``revoke``: first index whose entries by this key no longer count; null means this entry's index."""
    reason: Text | None = None
    endorsements: tuple[Endorsement, ...] = ()


class RunBody(Model):
    """A measurement: raw times, parity, memory and provenance. It holds no label."""

    bundle: Hex64
    """SHA-256 of the bundle's ``bundle.json``."""
    role: Literal["candidate", "frontier", "reference"]
    subject: Subject
    model: WeightsRef | None = None
    machine: Machine
    timing: Annotated[tuple[Series, ...], Field(min_length=1, max_length=64)]
    parity: Parity | None = None
    memory: tuple[RankMemory, ...] = ()
    flags: tuple[Flag, ...] = ()
    expert_load: ExpertLoad | None = None
    tee: Tee = Tee(kind="none")
    round: Name | None = None
    artifacts: tuple[Artifact, ...] = ()


class FailedBody(Model):
    """A run that did not finish: kept and counted, never nothing."""

    bundle: Hex64
    role: Literal["candidate", "frontier", "reference"]
    subject: Subject
    model: WeightsRef | None = None
    machine: Machine
    stage: Name
    reason: Text
    exit_status: int | None = None
    round: Name | None = None
    artifacts: tuple[Artifact, ...] = ()


class PinUse(Model):
    """A pin as a verdict used it."""

    slot: Name
    value: Decimal
    source: Literal["pin", "receipt", "rule", "file", "history"]
    entry: Hex64 | None = None
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
    pins: tuple[PinUse, ...]
    metric: Name
    tier: Name
    bound_by: Name
    steps: tuple[Step, ...]
    not_checked: tuple[Name, ...] = ()


class RuleBody(Model):
    """A frozen rule version, published in the ledger."""

    rule: Name
    rule_sha256: Hex64
    arithmetic: Name
    parameters: tuple[Step, ...]


class PinBody(Model):
    """A frontier or reference value written down for others to score against."""

    slot: Name
    value: Decimal
    unit: Name
    source: Hex64
    """Identity of the entry it was measured in."""
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")] | None = None


class SupersedeBody(Model):
    """Says that an older entry no longer stands, and why. The old entry is never edited."""

    target: Hex64
    reason: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    replacement: Hex64 | None = None


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
    fields: tuple[Step, ...]
    """Figures taken from the originals, each exact text with its source as name (``result.tps``)."""
    findings: tuple[Name, ...] = ()
    """Codes that the audit of this receipt raised."""
    artifacts: Annotated[tuple[Artifact, ...], Field(min_length=1)]


class RoundBody(Model):
    """One round on a pinned node: which receipts belong together."""

    round: Name
    node: Name
    rule: Name
    base_commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
    frontier: Hex64 | None = None
    runs: tuple[Hex64, ...]


class MergeBody(Model):
    """A winner that was merged: explains why the next measurement of the frontier moved."""

    pull_request: Positive | None = None
    commit: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
    run: Hex64 | None = None
    """Identity of the winning receipt; null when it was never sealed."""
    claimed: Decimal | None = None
    slot: Name


class WitnessBody(Model):
    """A cosignature kept in the log for the record."""

    checkpoint_sha256: Hex64
    witness: Name
    cosignature: Text


class NoteBody(Model):
    """Words for the reader."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=32768)]
    artifacts: tuple[Artifact, ...] = ()


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

SIGNING_ROLES: dict[str, frozenset[str]] = {
    "genesis": frozenset({"root"}),
    "key": frozenset({"root"}),
    "run": frozenset({"runner"}),
    "failed": frozenset({"runner"}),
    "verdict": frozenset({"judge"}),
    "rule": frozenset({"judge"}),
    "pin": frozenset({"judge"}),
    "merge": frozenset({"judge"}),
    "round": frozenset({"judge"}),
    "supersede": frozenset({"judge"}),
    "import": frozenset({"log"}),
    "witness": frozenset({"log"}),
    "note": frozenset({"root", "log", "runner", "judge", "witness"}),
}
"""Which roles may sign an entry of each kind. Checkpoints are signed by the ``log`` role."""


class Bundle(Model):
    """``bundle.json``: the unsigned output of a run, in the same canonical profile.

    ``run`` bundles carry the body of the receipt-to-be without its ``bundle`` digest, which is the SHA-256 of this
    very file; sealing adds it. Artifacts stand beside it as ``blobs/<sha256>``.
    """

    schema_: Literal["k3-ledger/bundle/1"] = Field(alias="schema")
    kind: Literal["run", "failed"]
    body: dict[str, object]
