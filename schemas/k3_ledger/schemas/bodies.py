"""The body of each entry kind. What a measurement consists of stands in :mod:`k3_ledger.schemas.measurement`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from k3_ledger.schemas.envelope import MOST_ENDORSEMENTS, Role
from k3_ledger.schemas.measurement import Artifact, FailedMeasurement, RunMeasurement
from k3_ledger.schemas.values import (
    Commit,
    Count,
    Decimal,
    Hex64,
    KeyId,
    Model,
    Name,
    Origin,
    Positive,
    Signature,
    Text,
)


class GenesisBody(Model):
    """First entry: names the log and pins its root key."""

    format: Literal["k3-ledger/1"]
    """The format of the whole ledger."""
    origin: Origin
    """Name of the log; the first entry's `prev` is the SHA-256 of this and a line feed."""
    root_public_key: Hex64
    """Raw Ed25519 public key of the root, which signs this entry and all `key` entries."""


class Endorsement(Model):
    """A further root's signature over a root action, for thresholds of k of n."""

    key: KeyId
    """Key id of the endorsing root."""
    sig: Signature
    """Its signature over the endorsement statement, see format.md."""


class KeyBody(Model):
    """Enrols, rotates or revokes a key, from this log position on."""

    action: Literal["enrol", "rotate", "revoke"]
    """`enrol` adds a key, `rotate` adds one and retires the one it replaces, `revoke` retires one."""
    role: Role
    """What the key may sign."""
    key_id: KeyId
    """SHA-256 of `public_key`."""
    public_key: Hex64
    """Raw Ed25519 public key that is enrolled, rotated in or revoked."""
    name: Name
    """Who or what holds it."""
    replaces: KeyId | None
    """The key that a rotation retires; null otherwise."""
    revoked_from: Count | None
    """For `revoke`: first index whose entries by this key no longer count; null means this entry's index."""
    reason: Text | None
    """Why, in words."""
    endorsements: Annotated[tuple[Endorsement, ...], Field(max_length=MOST_ENDORSEMENTS)]
    """Endorsements by further roots, as many as the threshold in force asks for beside the signer."""


class ThresholdBody(Model):
    """Sets how many root keys have to stand behind each `key` and `threshold` entry from the next entry on."""

    threshold: Annotated[int, Field(ge=1, le=MOST_ENDORSEMENTS + 1)]
    """How many: the signer and at least so many less one endorsements."""
    reason: Text | None
    """Why, in words."""
    endorsements: Annotated[tuple[Endorsement, ...], Field(max_length=MOST_ENDORSEMENTS)]
    """Endorsements by further roots: changing the threshold takes the one in force."""


class RunBody(RunMeasurement):
    """A receipt: a measurement and the bundle that it was sealed from."""

    bundle: Hex64
    """SHA-256 of the bundle's `bundle.json`."""


class FailedBody(FailedMeasurement):
    """A run that did not finish, and the bundle that it was sealed from."""

    bundle: Hex64
    """SHA-256 of the bundle's `bundle.json`."""


class PinUse(Model):
    """A pin as a verdict used it."""

    slot: Name
    """Which pin: metric, node, quantisation and context."""
    value: Decimal
    """The value that was used."""
    source: Literal["pin", "receipt", "rule", "file", "history"]
    """Where it was taken from: a `pin` entry, a receipt of the same round, the rule itself, a pins file, or the shipped
    history table."""
    entry: Hex64 | None
    """Identity of that entry; null when it came from no entry."""
    inferred: bool
    """Whether it was worked out rather than recorded."""


class Step(Model):
    """A named figure, exact, as text."""

    name: Name
    """What it is."""
    value: Text
    """Its exact text."""


class VerdictBody(Model):
    """A rule applied to a receipt. Anyone can re-derive it."""

    target: Hex64
    """Identity of the `run` or `import` entry that is judged."""
    rule: Name
    """Version of the rule."""
    rule_sha256: Hex64
    """Digest of the rule's frozen parameters."""
    pins: Annotated[tuple[PinUse, ...], Field(max_length=64)]
    """Pins it was judged against."""
    metric: Name
    """Metric that was scored."""
    tier: Name
    """`XS`, `S`, `M`, `L`, `XL`, `none`, `BASELINE` or `REJECT`."""
    bound_by: Name
    """The term that decided the tier."""
    steps: Annotated[tuple[Step, ...], Field(max_length=256)]
    """Every intermediate value, in order."""
    not_checked: Annotated[tuple[Name, ...], Field(max_length=64)]
    """Gates whose evidence is absent."""


class RuleBody(Model):
    """A frozen rule version, published in the ledger."""

    rule: Name
    """Version of the rule."""
    rule_sha256: Hex64
    """Digest of its parameters."""
    arithmetic: Name
    """Which arithmetic the parameters are for."""
    parameters: Annotated[tuple[Step, ...], Field(max_length=256)]
    """Every parameter."""


class PinBody(Model):
    """A frontier or reference value written down for others to score against."""

    slot: Name
    """Which pin: metric, node, quantisation and context."""
    value: Decimal
    """The value."""
    unit: Name
    """What it is measured in."""
    source: Hex64
    """Identity of the entry that it was measured in."""
    commit: Commit | None
    """Commit of the measured program; null when it has none."""


class SupersedeBody(Model):
    """Says that an older entry no longer stands, and why. The old entry is never edited."""

    target: Hex64
    """Identity of the older entry."""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    """Why, in words."""
    replacement: Hex64 | None
    """Identity of the entry that stands in its place; null when none does."""


class ImportBody(Model):
    """A foreign receipt: its original bytes are the artifacts, its extracted figures are a convenience."""

    format: Name
    """The foreign format, such as `polaris/1`."""
    foreign_id: Name
    """What the foreign log calls it."""
    original_sha256: Hex64
    """SHA-256 of the foreign receipt's bytes, or of the first artifact when there is no receipt."""
    attestation: Name
    """How the foreign log attests it: `tdx-quote`, `ed25519` or `none`."""
    fields: Annotated[tuple[Step, ...], Field(max_length=256)]
    """Figures taken from the originals, each exact text under its source's name, such as `result.tps`."""
    findings: Annotated[tuple[Name, ...], Field(max_length=64)]
    """Codes that the audit of this receipt raised."""
    artifacts: Annotated[tuple[Artifact, ...], Field(min_length=1, max_length=256)]
    """The original files."""


class RoundBody(Model):
    """One round on a pinned node: which receipts belong together."""

    round: Name
    """What the round is called."""
    node: Name
    """The node it ran on."""
    rule: Name
    """Rule version in force."""
    base_commit: Commit
    """Commit that all candidates started from."""
    frontier: Hex64 | None
    """Identity of the frontier's receipt; null when the frontier was not run."""
    runs: Annotated[tuple[Hex64, ...], Field(max_length=512)]
    """Identities of all receipts of the round."""


class MergeBody(Model):
    """A winner that was merged: explains why the next measurement of the frontier moved."""

    pull_request: Positive | None
    """Its number; null when there was none."""
    commit: Commit
    """Commit that the merge made."""
    run: Hex64 | None
    """Identity of the winning receipt; null when it was never sealed."""
    claimed: Decimal | None
    """Value that was claimed for it; null when none was."""
    slot: Name
    """The pin that it moves."""


class WitnessBody(Model):
    """A cosignature kept in the log for the record: the witness signed the checkpoint. It vouches for nothing."""

    checkpoint_sha256: Hex64
    """SHA-256 of the checkpoint's note text, of a size at most this entry's index."""
    witness: Name
    """Key name of the witness."""
    cosignature: Text
    """Its signature line, without the line feed."""


class NoteBody(Model):
    """Words for the reader."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=32768)]
    """The words, at most 32,768 characters."""
    artifacts: Annotated[tuple[Artifact, ...], Field(max_length=256)]
    """Files that go with them."""
