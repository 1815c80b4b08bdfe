"""Models of every entry kind of format version 1, as frozen pydantic classes that forbid unknown fields.

Values obey the canonical profile (:mod:`k3_ledger.schemas.canonical`): integers within ±(2**53 - 1), text, lists,
objects, true, false and null. Everything is imported from here; constrained scalars are defined in
:mod:`k3_ledger.schemas.values`, parts of a measurement in :mod:`k3_ledger.schemas.measurement`, bodies in
:mod:`k3_ledger.schemas.bodies`. The string under a field says what the field means; ``docs/format-bodies.md`` and the
JSON Schemas carry the same words.

A schema is about one entry by itself. What needs other entries, keys or arithmetic (that ``key_id`` is the digest of
``public_key``, that a target exists, that samples do not overlap) is left to the verifier's steps.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, cast, get_args

from pydantic import Field

from k3_ledger.schemas.bodies import (
    Endorsement,
    FailedBody,
    GenesisBody,
    ImportBody,
    KeyBody,
    MergeBody,
    NoteBody,
    PinBody,
    PinUse,
    RoundBody,
    RuleBody,
    RunBody,
    Step,
    SupersedeBody,
    ThresholdBody,
    VerdictBody,
    WitnessBody,
)
from k3_ledger.schemas.envelope import Kind, Role
from k3_ledger.schemas.measurement import (
    Accelerator,
    Artifact,
    ExpertLoad,
    FailedMeasurement,
    Flag,
    Machine,
    Measured,
    Node,
    Parity,
    ParityDepth,
    ParityReference,
    RankMemory,
    RunMeasurement,
    Sample,
    Series,
    Software,
    Source,
    Subject,
    Tee,
    WeightsRef,
)
from k3_ledger.schemas.values import (
    BigInt,
    Commit,
    Count,
    Decimal,
    FileName,
    Hex64,
    Integer,
    KeyId,
    MediaType,
    Model,
    Name,
    Origin,
    Positive,
    Signature,
    Text,
    Timestamp,
)

__all__ = [
    "BODIES",
    "BUNDLES",
    "ENTRIES",
    "Accelerator",
    "AnyEntry",
    "Artifact",
    "BigInt",
    "Bundle",
    "Commit",
    "Count",
    "Decimal",
    "Endorsement",
    "Entry",
    "ExpertLoad",
    "FailedBody",
    "FailedBundle",
    "FailedEntry",
    "FailedMeasurement",
    "FileName",
    "Flag",
    "GenesisBody",
    "GenesisEntry",
    "Hex64",
    "ImportBody",
    "ImportEntry",
    "Integer",
    "KeyBody",
    "KeyEntry",
    "KeyId",
    "Machine",
    "Measured",
    "MediaType",
    "MergeBody",
    "MergeEntry",
    "Model",
    "Name",
    "Node",
    "NoteBody",
    "NoteEntry",
    "Origin",
    "Parity",
    "ParityDepth",
    "ParityReference",
    "PinBody",
    "PinEntry",
    "PinUse",
    "Positive",
    "RankMemory",
    "Role",
    "RoundBody",
    "RoundEntry",
    "RuleBody",
    "RuleEntry",
    "RunBody",
    "RunBundle",
    "RunEntry",
    "RunMeasurement",
    "Sample",
    "Series",
    "Signature",
    "Software",
    "Source",
    "Step",
    "Subject",
    "SupersedeBody",
    "SupersedeEntry",
    "Tee",
    "Text",
    "ThresholdBody",
    "ThresholdEntry",
    "Timestamp",
    "VerdictBody",
    "VerdictEntry",
    "WeightsRef",
    "WitnessBody",
    "WitnessEntry",
]


class Entry(Model):
    """Fields that every entry carries. Chain fields are inside the signed bytes."""

    index: Count
    """Position in the log, from 0."""
    prev: Hex64
    """Identity of the previous entry; for genesis, SHA-256 of the origin and a line feed."""
    time: Timestamp
    """Claimed: when the signer says it was sealed. Order comes from the chain."""
    key: KeyId
    """Key id of the signer."""
    kind: Kind
    """Which kind of entry this is; it decides the schema, the body, and which roles may sign it."""
    schema_: str = Field(alias="schema")
    """Format of the body and its version: `k3-ledger/<kind>/1`."""
    body: Model
    """What the entry says."""


class GenesisEntry(Entry):
    """An entry of kind `genesis`."""

    kind: Literal["genesis"]
    schema_: Literal["k3-ledger/genesis/1"] = Field(alias="schema")
    body: GenesisBody


class KeyEntry(Entry):
    """An entry of kind `key`."""

    kind: Literal["key"]
    schema_: Literal["k3-ledger/key/1"] = Field(alias="schema")
    body: KeyBody


class ThresholdEntry(Entry):
    """An entry of kind `threshold`."""

    kind: Literal["threshold"]
    schema_: Literal["k3-ledger/threshold/1"] = Field(alias="schema")
    body: ThresholdBody


class RunEntry(Entry):
    """An entry of kind `run`."""

    kind: Literal["run"]
    schema_: Literal["k3-ledger/run/1"] = Field(alias="schema")
    body: RunBody


class VerdictEntry(Entry):
    """An entry of kind `verdict`."""

    kind: Literal["verdict"]
    schema_: Literal["k3-ledger/verdict/1"] = Field(alias="schema")
    body: VerdictBody


class RuleEntry(Entry):
    """An entry of kind `rule`."""

    kind: Literal["rule"]
    schema_: Literal["k3-ledger/rule/1"] = Field(alias="schema")
    body: RuleBody


class PinEntry(Entry):
    """An entry of kind `pin`."""

    kind: Literal["pin"]
    schema_: Literal["k3-ledger/pin/1"] = Field(alias="schema")
    body: PinBody


class SupersedeEntry(Entry):
    """An entry of kind `supersede`."""

    kind: Literal["supersede"]
    schema_: Literal["k3-ledger/supersede/1"] = Field(alias="schema")
    body: SupersedeBody


class ImportEntry(Entry):
    """An entry of kind `import`."""

    kind: Literal["import"]
    schema_: Literal["k3-ledger/import/1"] = Field(alias="schema")
    body: ImportBody


class RoundEntry(Entry):
    """An entry of kind `round`."""

    kind: Literal["round"]
    schema_: Literal["k3-ledger/round/1"] = Field(alias="schema")
    body: RoundBody


class MergeEntry(Entry):
    """An entry of kind `merge`."""

    kind: Literal["merge"]
    schema_: Literal["k3-ledger/merge/1"] = Field(alias="schema")
    body: MergeBody


class FailedEntry(Entry):
    """An entry of kind `failed`."""

    kind: Literal["failed"]
    schema_: Literal["k3-ledger/failed/1"] = Field(alias="schema")
    body: FailedBody


class WitnessEntry(Entry):
    """An entry of kind `witness`."""

    kind: Literal["witness"]
    schema_: Literal["k3-ledger/witness/1"] = Field(alias="schema")
    body: WitnessBody


class NoteEntry(Entry):
    """An entry of kind `note`."""

    kind: Literal["note"]
    schema_: Literal["k3-ledger/note/1"] = Field(alias="schema")
    body: NoteBody


AnyEntry = Annotated[
    GenesisEntry
    | KeyEntry
    | ThresholdEntry
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
    """`bundle.json` of a run: the body of the receipt-to-be without its `bundle` digest, which is the SHA-256 of this
    very file. Artifacts stand beside it as `blobs/<sha256>`.
    """

    schema_: Literal["k3-ledger/bundle/1"] = Field(alias="schema")
    """Format of this file and its version."""
    kind: Literal["run"]
    """Which kind of entry it becomes."""
    body: RunMeasurement
    """The body of that entry, less `bundle`."""

    def sealed(self, digest: str) -> RunBody:
        """The body of the receipt for this bundle, whose ``bundle.json`` has the SHA-256 ``digest``."""
        return RunBody(bundle=digest, **dict(self.body))


class FailedBundle(Model):
    """`bundle.json` of a run that did not finish."""

    schema_: Literal["k3-ledger/bundle/1"] = Field(alias="schema")
    """Format of this file and its version."""
    kind: Literal["failed"]
    """Which kind of entry it becomes."""
    body: FailedMeasurement
    """The body of that entry, less `bundle`."""

    def sealed(self, digest: str) -> FailedBody:
        """The body of the entry for this bundle, whose ``bundle.json`` has the SHA-256 ``digest``."""
        return FailedBody(bundle=digest, **dict(self.body))


Bundle = Annotated[RunBundle | FailedBundle, Field(discriminator="kind")]
"""The unsigned output of a run, told apart by ``kind``."""
BUNDLES: Final[dict[str, type[RunBundle | FailedBundle]]] = {"run": RunBundle, "failed": FailedBundle}
"""Model of the bundle of each kind."""
