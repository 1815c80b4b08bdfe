"""What a measurement consists of: machine, subject, raw times, parity, memory.

Measurement and judgement are different entries: nothing here is a rate, a mean, a label or a tier. Times are integer
nanoseconds, sizes are bytes, and what cannot be an integer is a decimal string.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from k3_ledger.schemas.values import (
    Commit,
    Count,
    Decimal,
    FileName,
    Hex64,
    Integer,
    MediaType,
    Model,
    Name,
    Positive,
    Text,
    Timestamp,
)


class Artifact(Model):
    """A file that belongs to an entry, stored beside the ledger and named by its digest."""

    name: FileName
    """What the file is called among the artifacts of this entry."""
    sha256: Hex64
    """SHA-256 of its bytes; it is stored as `blobs/sha256/ab/abcd…`."""
    size: Count
    """Its length in bytes."""
    media_type: MediaType
    """What it holds."""


class Software(Model):
    """One piece of software and its version."""

    name: Name
    """What it is called."""
    version: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """The version that the program itself reports."""


class Accelerator(Model):
    """One GPU or other accelerator of the node."""

    name: Text
    """Product name, as its driver reports it."""
    memory_bytes: Count
    """Its memory, in bytes."""
    driver: Text | None
    """Driver version; null when it could not be read."""
    clock_mhz: Count | None
    """Clock during the run, in MHz; null when it could not be read."""
    clocks_locked: bool
    """Whether the clocks were pinned for the run."""


class Node(Model):
    """The machine a run was measured on."""

    name: Name
    """What the operator calls it; runs are only compared on one node."""
    cpu: Text
    """Processor model."""
    logical_cores: Positive
    """Logical cores that the process could use."""
    memory_bytes: Count
    """Main memory, in bytes."""
    os: Text
    """Operating system and release."""
    kernel: Text
    """Kernel version."""
    accelerators: Annotated[tuple[Accelerator, ...], Field(max_length=64)]
    """Its accelerators, in device order; empty on a machine without one."""


class Machine(Model):
    """Where and with what something ran."""

    node: Node
    """The machine."""
    software: Annotated[tuple[Software, ...], Field(max_length=64)]
    """Versions that bear on the result."""
    command: Annotated[tuple[Text, ...], Field(min_length=1, max_length=256)]
    """Program and arguments, one element each."""
    started: Timestamp
    """When the run began, by the runner's clock."""


class Source(Model):
    """The source tree that the measured program was built from."""

    commit: Commit | None
    """Commit that was checked out; null when none is known."""
    dirty: bool
    """Whether the files that the program was built from differed from that commit."""
    patch_sha256: Hex64 | None
    """SHA-256 of the difference, which is then an artifact; null where there is none that git knows of."""
    clean_builds: Count
    """How many builds from an empty directory gave this program."""


class Subject(Model):
    """The program that was measured."""

    name: Name
    """What it is called."""
    version: Text
    """The version it reports."""
    source: Source | None
    """Its source tree; null when only a binary was at hand, or no repository tracks the files that ran."""
    build_sha256: Hex64 | None
    """SHA-256 of what ran: a binary, a wheel, or a manifest of sources that is an artifact."""


class WeightsRef(Model):
    """The model whose forward pass was measured."""

    name: Name
    """What it is called."""
    architecture: Name
    """Its architecture, as its file names it."""
    quant: Name
    """How its weights are stored."""
    sha256: Hex64
    """SHA-256 of the model file, or of the list of its parts' digests, one lower-case line each with LF."""
    size: Count
    """Length of the model file or of all parts, in bytes."""
    synthetic: bool
    """Whether the weights are made up: such a run says something about speed and nothing about answers."""


class Sample(Model):
    """One timed repetition."""

    start_ns: Count
    """When it began: nanoseconds since the start of the run, on the observer's monotonic clock."""
    duration_ns: Positive
    """How long it took: a difference of that same clock, in nanoseconds."""
    count: Positive
    """How many of the series' units were done in it."""


class Series(Model):
    """Raw repetitions of one metric as one observer saw them. No mean, no rate, no label: those are derived."""

    metric: Name
    """What was done: `decode`, `prefill`, `verify`, `append` … `load` and `ping` are noted beside a run: how long the
    engine took to start, and what a request costs that does nothing. No rule scores them, and they have no frontier."""
    unit: Name
    """What a sample's `count` counts: `token`, `receipt`, `entry`, `byte` …"""
    actor: Name
    """`subject` for the program under test, `floor` for the bare loop it is compared with in the same run, otherwise
    the name of a peer."""
    observer: Literal["controller", "subject"]
    """`controller` when another process timed it from outside, `subject` when it is self-reported."""
    context: Count | None
    """Tokens of context in front of the timed region; null where the metric has none. For `prefill` this is what the
    timed tokens were put behind, mostly 0; how many were prefilled is each sample's `count`, and the shortest of them
    is the context that rules score prefill at. A sample of more tokens may be several prompts, one after another."""
    context_filled: Count | None
    """How many of those were real tokens rather than a seek over an empty cache."""
    batch: Positive
    """Sequences advanced together."""
    processes: Positive
    """Processes that did the work together."""
    warmup: Count
    """Repetitions run before the first sample and not recorded."""
    inputs: Literal["fresh", "repeated"]
    """`fresh` when every repetition had new input values, `repeated` when not."""
    cache: Literal["cold", "warm", "none"]
    """State of any result or prefix cache; `none` when there is none."""
    samples: Annotated[tuple[Sample, ...], Field(min_length=1, max_length=512)]
    """The repetitions, in the order in which they began."""


class ParityDepth(Model):
    """Agreement with the reference at one depth."""

    depth: Positive
    """Tokens of the prompt's prefix that was graded."""
    rows: Positive
    """Positions graded there."""
    kl_max: Decimal
    """Largest KL divergence of a position, in nats, over the full vocabulary."""
    kl_mean: Decimal
    """Mean KL divergence of the positions, in nats."""
    top1_agree: Count
    """Positions where both name the same most likely token."""
    ties: Count
    """Positions where the reference's two largest logits are equal."""
    near_ties: Count
    """Positions where they differ by less than `near_tie_bound`."""
    max_abs_logprob_difference: Decimal
    """Largest absolute difference of two log probabilities, in nats."""


class ParityReference(Model):
    """The engine whose logits were taken as right."""

    name: Name
    """What it is called."""
    version: Text
    """The version it reports."""
    independent: bool
    """False when it is this project's own code: such a record can never earn a tier."""


class Parity(Model):
    """Full-vocabulary agreement on the very path that was timed."""

    reference: ParityReference
    """Whose logits were taken as right."""
    prompt_sha256: Hex64
    """SHA-256 of the prompts' token ids as text: decimal, commas between, LF after each prompt. A run keeps that text
    as its artifact `prompts.txt`."""
    vocabulary: Positive
    """Tokens in the vocabulary: the length of every compared row."""
    path: Literal["prefill", "decode", "both"]
    """Which code path was graded."""
    chunk: Positive | None
    """Tokens that prefill takes at a time; null when it takes the whole prompt."""
    processing: Literal["raw", "processed"]
    """`raw` logits, or `processed` by a temperature, a penalty or a filter."""
    tie_rule: Literal["lowest-id"]
    """Which of equal logits counts as the first."""
    near_tie_bound: Decimal
    """Difference of two logits below which they count as nearly tied."""
    depths: Annotated[tuple[ParityDepth, ...], Field(min_length=1, max_length=64)]
    """Agreement per depth, shallow first."""


class RankMemory(Model):
    """Peak memory of one rank."""

    rank: Count
    """The rank, from 0."""
    peak_bytes: Count
    """Its peak, in bytes."""
    device: Literal["host", "accelerator"]
    """Whose memory."""


class Flag(Model):
    """One engine flag as it was resolved."""

    name: Name
    """What it is called."""
    value: Text
    """The value that was in force."""
    origin: Literal["default", "command", "environment"]
    """Where that value came from."""


class ExpertLoad(Model):
    """How routing spread over experts, by the engine's own count, in a pass that is not timed."""

    experts: Positive
    """Experts of a layer."""
    distinct: Count
    """Experts that were used at least once, in the layer that used fewest."""
    max_load: Count
    """Tokens that the busiest expert of any layer took."""
    tokens: Positive
    """Tokens that were routed, each counted once however many experts it takes."""


class Tee(Model):
    """Trusted execution environment of the runner."""

    kind: Literal["none", "tdx"]
    """Which; `none` when there was none."""
    report_data_sha256: Hex64 | None
    """SHA-256 of the quote's 64 bytes of report data (docs/attestation.md derives them from the receipt); null when
    there is no quote."""


class Measured(Model):
    """What runs and failures have in common."""

    role: Literal["candidate", "frontier", "reference"]
    """`candidate` for what is being judged, `frontier` for the best so far run again, `reference` for the other
    engine."""
    subject: Subject
    """The program."""
    model: WeightsRef | None
    """The weights; null where the subject is no model engine."""
    machine: Machine
    """Where it ran."""
    round: Name | None
    """The round it belongs to; null for a run on its own."""
    artifacts: Annotated[tuple[Artifact, ...], Field(max_length=256)]
    """Files it left: logs, logits, patches, quotes."""


class RunMeasurement(Measured):
    """A measurement: raw times, parity, memory and provenance. It holds no label."""

    timing: Annotated[tuple[Series, ...], Field(min_length=1, max_length=64)]
    """Raw times, one series per metric, actor, observer and conditions, which no two share: prefill of another length,
    counted from its shortest repetition, is another metric here."""
    parity: Parity | None
    """Agreement with a reference; null when it was not graded."""
    memory: Annotated[tuple[RankMemory, ...], Field(max_length=1024)]
    """Peak memory, one element per rank and device."""
    flags: Annotated[tuple[Flag, ...], Field(max_length=256)]
    """Engine flags as they were resolved, whatever their origin."""
    expert_load: ExpertLoad | None
    """Spread of expert routing; null where there are no experts or it was not counted."""
    tee: Tee
    """The trusted environment of the runner."""


class FailedMeasurement(Measured):
    """A run that did not finish: kept and counted, never nothing."""

    stage: Name
    """What it was doing when it ended."""
    reason: Text
    """Why it ended."""
    exit_status: Integer | None
    """Exit status of the process, negative for a signal; null when it never started."""
