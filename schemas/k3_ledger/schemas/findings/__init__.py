"""The registry of finding codes: everything a verifier, an auditor or a writer can report has a member and a row here.

A code's spelling (``K3L-`` plus its member name with dashes) is part of the public interface and never changes
meaning; a code is retired, not reused. The members stand in this module; what each one says stands under its name in
the ``ROWS`` of the module that its section names, which are read when the first of them is asked for: a command that
finds nothing pays for none. ``docs/findings.md`` is generated from both.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from k3_ledger.schemas.outcomes import NOWHERE, Position, Severity

if TYPE_CHECKING:
    from k3_ledger.schemas.findings.row import CodeInfo

__all__ = ["Code", "Finding"]


@enum.unique
class Code(enum.Enum):
    """Every finding code. ``Code.TORN_TAIL.id`` is ``"K3L-TORN-TAIL"``."""

    # -- input, said in reading ---
    NOT_A_LEDGER = enum.auto()
    EMPTY_LEDGER = enum.auto()
    UNREADABLE = enum.auto()
    CHANGED_WHILE_READ = enum.auto()
    # -- framing, said in reading ---
    UTF16 = enum.auto()
    BOM = enum.auto()
    CRLF = enum.auto()
    BLANK_LINE = enum.auto()
    TRAILING_SPACE = enum.auto()
    NUL_BYTES = enum.auto()
    GLUED_LINES = enum.auto()
    LINE_TOO_LONG = enum.auto()
    LINE_HEAD = enum.auto()
    LINE_TAIL = enum.auto()
    SIGNATURE_BASE64 = enum.auto()
    TORN_TAIL = enum.auto()
    NUL_TAIL = enum.auto()
    TAIL_DAMAGED = enum.auto()
    # -- canonical, said in reading ---
    JSON_TOO_LONG = enum.auto()
    JSON_BYTE_ORDER_MARK = enum.auto()
    JSON_NOT_UTF8 = enum.auto()
    JSON_SYNTAX = enum.auto()
    JSON_TRAILING_BYTES = enum.auto()
    JSON_TOO_DEEP = enum.auto()
    JSON_TOO_MANY_ITEMS = enum.auto()
    JSON_STRING_TOO_LONG = enum.auto()
    JSON_CONTROL_CHARACTER = enum.auto()
    JSON_ESCAPE = enum.auto()
    JSON_LONE_SURROGATE = enum.auto()
    JSON_FLOAT = enum.auto()
    JSON_NOT_A_NUMBER = enum.auto()
    JSON_NEGATIVE_ZERO = enum.auto()
    JSON_LEADING_ZERO = enum.auto()
    JSON_INTEGER_RANGE = enum.auto()
    JSON_DUPLICATE_KEY = enum.auto()
    JSON_KEY_ALPHABET = enum.auto()
    JSON_TYPE = enum.auto()
    JSON_NOT_CANONICAL = enum.auto()
    # -- schema, said in reading ---
    SCHEMA_UNKNOWN_KIND = enum.auto()
    SCHEMA_VERSION = enum.auto()
    SCHEMA_UNKNOWN_FIELD = enum.auto()
    SCHEMA_MISSING_FIELD = enum.auto()
    SCHEMA_TYPE = enum.auto()
    SCHEMA_VALUE = enum.auto()
    # -- chain, said in log ---
    CHAIN_NO_GENESIS = enum.auto()
    CHAIN_SECOND_GENESIS = enum.auto()
    CHAIN_INDEX = enum.auto()
    CHAIN_REPEATED = enum.auto()
    CHAIN_FORK = enum.auto()
    CHAIN_PREV = enum.auto()
    CLAIMED_TIME = enum.auto()
    # -- signature, said in log ---
    SIGNATURE_LENGTH = enum.auto()
    SIGNATURE_S_RANGE = enum.auto()
    SIGNATURE_R_ENCODING = enum.auto()
    SIGNATURE_R_LOW_ORDER = enum.auto()
    SIGNATURE_MISMATCH = enum.auto()
    # -- keys, said in log ---
    KEY_FILE_UNREADABLE = enum.auto()
    KEY_FILE_EXPOSED = enum.auto()
    KEY_FILE_PASSPHRASE = enum.auto()
    KEY_FILE_MALFORMED = enum.auto()
    KEY_FILE_EXISTS = enum.auto()
    PUBLIC_KEY_LENGTH = enum.auto()
    PUBLIC_KEY_ENCODING = enum.auto()
    PUBLIC_KEY_LOW_ORDER = enum.auto()
    PUBLIC_KEY_MIXED_ORDER = enum.auto()
    VERIFIER_KEY = enum.auto()
    KEY_UNKNOWN = enum.auto()
    KEY_WEAK = enum.auto()
    KEY_ID_MISMATCH = enum.auto()
    KEY_ENROLLED_TWICE = enum.auto()
    KEY_UNKNOWN_TARGET = enum.auto()
    KEY_WRONG_ROLE = enum.auto()
    KEY_NOT_YET = enum.auto()
    KEY_RETIRED = enum.auto()
    KEY_DISOWNED = enum.auto()
    THRESHOLD_NOT_MET = enum.auto()
    THRESHOLD_IMPOSSIBLE = enum.auto()
    ROOTS_TOO_FEW = enum.auto()
    KEY_NOT_SHOWN = enum.auto()
    ENDORSER_UNKNOWN = enum.auto()
    ENDORSEMENT_REPEATED = enum.auto()
    ENDORSEMENT_SIGNATURE = enum.auto()
    ENDORSEMENT_STALE = enum.auto()
    PROPOSAL_MALFORMED = enum.auto()
    PROPOSALS_DIFFER = enum.auto()
    REVOCATION_CIRCULAR = enum.auto()
    REVOCATIONS_TOO_MANY = enum.auto()
    # -- proof, said in log ---
    PROOF_SHAPE = enum.auto()
    INCLUSION_MISMATCH = enum.auto()
    CONSISTENCY_MISMATCH = enum.auto()
    PROOF_FILE = enum.auto()
    PROOF_TOO_LARGE = enum.auto()
    TLOG_PROOF = enum.auto()
    NOT_CHECKPOINTED = enum.auto()
    PROOF_DISOWNED = enum.auto()
    PROOF_INCOMPLETE = enum.auto()
    # -- timestamp, said in log ---
    TIMESTAMP_UNREADABLE = enum.auto()
    TIMESTAMP_UNTRUSTED = enum.auto()
    TIMESTAMP_BAD = enum.auto()
    TIMESTAMP_ELSEWHERE = enum.auto()
    TIMESTAMP_VAGUE = enum.auto()
    # -- checkpoint, said in heads ---
    NOTE_MALFORMED = enum.auto()
    NOTE_SIGNATURE = enum.auto()
    NOTE_UNSIGNED = enum.auto()
    CHECKPOINT_MALFORMED = enum.auto()
    CHECKPOINT_ORIGIN = enum.auto()
    CHECKPOINT_AHEAD = enum.auto()
    CHECKPOINT_ROOT = enum.auto()
    UNWITNESSED = enum.auto()
    CHECKPOINT_MISNAMED = enum.auto()
    CHECKPOINT_SIGNATURE = enum.auto()
    CHECKPOINT_DISOWNED = enum.auto()
    UNCHECKPOINTED = enum.auto()
    CHECKPOINT_UNREADABLE = enum.auto()
    CHECKPOINT_BEHIND = enum.auto()
    HEAD_TOO_SMALL = enum.auto()
    MEMORY_UNREADABLE = enum.auto()
    MEMORY_FOREIGN = enum.auto()
    ROLLBACK = enum.auto()
    FORK = enum.auto()
    HEAD_FROZEN = enum.auto()
    # -- witness, said in heads ---
    WITNESS_QUORUM = enum.auto()
    COSIGNATURE_BAD = enum.auto()
    COSIGNATURE_TIMELESS = enum.auto()
    COSIGNATURE_REPEATED = enum.auto()
    WITNESS_NOT_INDEPENDENT = enum.auto()
    WITNESS_ENTRY_FALSE = enum.auto()
    WITNESS_ENTRY_OPEN = enum.auto()
    WITNESS_REQUEST = enum.auto()
    WITNESS_ORIGIN = enum.auto()
    WITNESS_OLD_SIZE = enum.auto()
    WITNESS_SMALLER = enum.auto()
    WITNESS_FORK = enum.auto()
    WITNESS_STATE = enum.auto()
    WITNESS_EXISTS = enum.auto()
    WITNESS_KEY = enum.auto()
    WITNESS_CLOCK = enum.auto()
    WITNESS_UNREACHABLE = enum.auto()
    WITNESS_ANSWER = enum.auto()
    WITNESS_REFUSED = enum.auto()
    WITNESS_AHEAD = enum.auto()
    COSIGNATURE_NO_ROOM = enum.auto()
    # -- store, said in storing ---
    STORE_MISSING = enum.auto()
    STORE_EXISTS = enum.auto()
    DISK_FULL = enum.auto()
    DISK_ERROR = enum.auto()
    READ_ONLY = enum.auto()
    ACCESS_DENIED = enum.auto()
    LOCK_BUSY = enum.auto()
    LOCK_UNSUPPORTED = enum.auto()
    LOG_REPLACED = enum.auto()
    WRITER_STOPPED = enum.auto()
    ENTRY_TOO_LONG = enum.auto()
    RECOVER_REFUSED = enum.auto()
    BLOB_DAMAGED = enum.auto()
    ARTIFACT_TOO_LONG = enum.auto()
    INDEX_UNUSABLE = enum.auto()
    NO_SUCH_ENTRY = enum.auto()
    NO_SUCH_KEY = enum.auto()
    NO_SUCH_HEAD = enum.auto()
    # -- artifact, said in storing ---
    BUNDLE_TAR = enum.auto()
    BUNDLE_MISSING_FILE = enum.auto()
    BUNDLE_EXTRA_FILE = enum.auto()
    BUNDLE_MISMATCH = enum.auto()
    ARTIFACT_MISSING = enum.auto()
    ARTIFACT_UNREADABLE = enum.auto()
    ARTIFACT_MISMATCH = enum.auto()
    ARTIFACT_SIZE = enum.auto()
    # -- mirror, said in storing ---
    TILE_MALFORMED = enum.auto()
    TILE_MISMATCH = enum.auto()
    TILE_MISSING = enum.auto()
    MIRROR_INCOMPLETE = enum.auto()
    TILES_CONFLICT = enum.auto()
    REMOTE_UNREADABLE = enum.auto()
    KEY_ENTRIES_WRONG = enum.auto()
    ARCHIVE_REFUSED = enum.auto()
    ARCHIVE_MISMATCH = enum.auto()
    ARCHIVE_CONTRADICTION = enum.auto()
    ARCHIVE_POLICY = enum.auto()
    # -- receipt, said in receipts ---
    RECEIPT_CLOCK = enum.auto()
    RECEIPT_COUNTS = enum.auto()
    RECEIPT_IMPOSSIBLE = enum.auto()
    RECEIPT_PARITY = enum.auto()
    RECEIPT_BUNDLE = enum.auto()
    ARTIFACT_NAME_TAKEN = enum.auto()
    IMPORT_ORIGINAL = enum.auto()
    IMPORT_FIELDS = enum.auto()
    IMPORT_DIFFERS = enum.auto()
    IMPORT_QUOTE_OPEN = enum.auto()
    IMPORT_QUOTE_ELSEWHERE = enum.auto()
    REFERENCE_UNKNOWN = enum.auto()
    REFERENCE_KIND = enum.auto()
    # -- policy, said in receipts ---
    POLICY_EXISTS = enum.auto()
    POLICY_MALFORMED = enum.auto()
    ROOT_NOT_TRUSTED = enum.auto()
    ROOT_NOT_CHECKED = enum.auto()
    ORIGIN_NOT_TRUSTED = enum.auto()
    REQUIRED_NOT_CHECKED = enum.auto()
    # -- foreign, said in foreign ---
    NOT_A_RUN_LOG = enum.auto()
    FOREIGN_NOT_READ = enum.auto()
    FOREIGN_SHAPE = enum.auto()
    FOREIGN_NUMBER = enum.auto()
    FOREIGN_HASH = enum.auto()
    FOREIGN_QUOTE = enum.auto()
    FOREIGN_QUOTE_PADDING = enum.auto()
    FOREIGN_SIGNATURE = enum.auto()
    FOREIGN_SIGNER_UNKNOWN = enum.auto()
    FOREIGN_SIGNER_OTHER = enum.auto()
    FOREIGN_SIGNED_ROUNDED = enum.auto()
    FOREIGN_CHAIN_UNSIGNED = enum.auto()
    FOREIGN_CHAIN_UNLINKED = enum.auto()
    FOREIGN_CHAIN_BROKEN = enum.auto()
    FOREIGN_CHAIN_INDEX = enum.auto()
    FOREIGN_ATTESTATION_UNBOUND = enum.auto()
    FOREIGN_NONCE_UNBOUND = enum.auto()
    FOREIGN_RECEIPT_ID_COMMON = enum.auto()
    FOREIGN_ADDED_AFTER_SEALING = enum.auto()
    FOREIGN_RESULT_REWRITTEN = enum.auto()
    FOREIGN_VERIFICATION_ASSERTED = enum.auto()
    FOREIGN_VERIFICATION_DENIED = enum.auto()
    FOREIGN_VERSION = enum.auto()
    FOREIGN_VERIFIER_REFUSES = enum.auto()
    FOREIGN_ENCLAVE_FAILED = enum.auto()
    FOREIGN_SEALED_VERDICT = enum.auto()
    FOREIGN_SEALED_BARS = enum.auto()
    FOREIGN_CONTRADICTION = enum.auto()
    FOREIGN_COMMIT = enum.auto()
    FOREIGN_DERIVED = enum.auto()
    FOREIGN_IMPOSSIBLE = enum.auto()
    FOREIGN_PRECISION_LOST = enum.auto()
    FOREIGN_PRECISION_FEIGNED = enum.auto()
    FOREIGN_BLANK_COPY = enum.auto()
    FOREIGN_NOT_COMPARED = enum.auto()
    FOREIGN_FIELD_ABSENT = enum.auto()
    FOREIGN_UNLISTED = enum.auto()
    FOREIGN_ROW_WITHOUT_RUN = enum.auto()
    FOREIGN_ROW_REPEATED = enum.auto()
    FOREIGN_FILE_MISSING = enum.auto()
    FOREIGN_INDEX_ORDER = enum.auto()
    FOREIGN_TIME_ORDER = enum.auto()
    FOREIGN_TIME_COLLATERAL = enum.auto()
    FOREIGN_EDITED_IN_PLACE = enum.auto()
    FOREIGN_SUPERSEDED_BY_OLDER = enum.auto()
    FOREIGN_TWO_MEANINGS = enum.auto()
    FOREIGN_TIER_BASIS = enum.auto()
    FOREIGN_GUARD_UNMEASURED = enum.auto()
    FOREIGN_FIELD_MISFILLED = enum.auto()
    FOREIGN_PROVENANCE_EMPTY = enum.auto()
    FOREIGN_CLOCKS_UNPINNED = enum.auto()
    FOREIGN_CLOCK_UNPUBLISHED = enum.auto()
    FOREIGN_CLOCK_WRONG_METRIC = enum.auto()
    FOREIGN_MISSING_FOR_RESCORE = enum.auto()
    FOREIGN_SAME_COMMIT = enum.auto()
    FOREIGN_SAME_RECEIPT = enum.auto()
    FOREIGN_ID_REPEATED = enum.auto()
    FOREIGN_BUILD_DIFFERS = enum.auto()
    FOREIGN_BUILD_SHARED = enum.auto()
    FOREIGN_WEIGHTS_CHANGED = enum.auto()
    FOREIGN_EVIDENCE_REPEATED = enum.auto()
    FOREIGN_BOUND_DIGEST = enum.auto()
    FOREIGN_ENCLAVE_CHANGED = enum.auto()
    FOREIGN_SCORER_COMMIT = enum.auto()
    FOREIGN_LOG_SHARED = enum.auto()
    FOREIGN_LOG_SILENT = enum.auto()
    FOREIGN_LOG_COUNT = enum.auto()
    FOREIGN_FAILURE_UNRECORDED = enum.auto()
    FOREIGN_REFUSED_THEN_PUBLISHED = enum.auto()
    FOREIGN_OVERRIDE_UNRECORDED = enum.auto()
    FOREIGN_REGRESSION_PUBLISHED = enum.auto()
    FOREIGN_MERGED_WITHOUT_GAIN = enum.auto()
    FOREIGN_TIER = enum.auto()
    FOREIGN_TIER_HISTORY = enum.auto()
    FOREIGN_PIN_GAP = enum.auto()
    FOREIGN_FRONTIER_UNMEASURED = enum.auto()
    FOREIGN_ADVANCE_UNPROVED = enum.auto()
    FOREIGN_RECEIPT_GONE = enum.auto()
    FOREIGN_LEDGER_EMPTY = enum.auto()
    # -- model, said in engine ---
    GGUF_MAGIC = enum.auto()
    GGUF_BYTE_ORDER = enum.auto()
    GGUF_VERSION = enum.auto()
    GGUF_LENGTH = enum.auto()
    GGUF_ALIGNMENT = enum.auto()
    GGUF_DUPLICATE = enum.auto()
    GGUF_VALUE = enum.auto()
    GGUF_TENSOR = enum.auto()
    GGUF_QUANTISATION = enum.auto()
    GGUF_SHARDS = enum.auto()
    MODEL_ARCHITECTURE = enum.auto()
    MODEL_KEY_MISSING = enum.auto()
    MODEL_KEY_VALUE = enum.auto()
    MODEL_TENSOR_MISSING = enum.auto()
    MODEL_TENSOR_SHAPE = enum.auto()
    MODEL_TENSOR_UNKNOWN = enum.auto()
    MODEL_WEIGHT_VALUE = enum.auto()
    MODEL_LOGIT_VALUE = enum.auto()
    MODEL_DOES_NOT_FIT = enum.auto()
    TOKENIZER_UNSUPPORTED = enum.auto()
    # -- parity, said in engine ---
    PARITY_PROMPTS_DIFFER = enum.auto()
    PARITY_TRUNCATED = enum.auto()
    PARITY_PROCESSED = enum.auto()
    PARITY_NOT_FINITE = enum.auto()
    PARITY_OVER_BOUND = enum.auto()
    PARITY_PERFECT_ZERO = enum.auto()
    PARITY_SELF_GRADED = enum.auto()
    PARITY_REFERENCE_FAILED = enum.auto()
    PARITY_ALL_TIES = enum.auto()
    PARITY_FLAT = enum.auto()
    # -- run, said in engine ---
    RUN_ENGINE_FAILED = enum.auto()
    RUN_PROTOCOL = enum.auto()
    RUN_TIMEOUT = enum.auto()
    RUN_FLAG = enum.auto()
    RUN_SELF_REPORT = enum.auto()
    RUN_MARGINAL = enum.auto()
    RUN_MARGIN = enum.auto()
    RUN_SHORT_MARGIN = enum.auto()
    RUN_OWN_TIME_RAISED = enum.auto()
    RUN_UNTIED = enum.auto()
    RUN_LEFT_OVER = enum.auto()
    RUN_OUTPUT = enum.auto()
    RUN_FOREIGN_FILE = enum.auto()
    RUN_DEGENERATE = enum.auto()
    RUN_INTERPRETED = enum.auto()
    RUN_MODEL_CHANGED = enum.auto()
    RUN_NO_QUOTE = enum.auto()
    RUN_INPUTS_REPEATED = enum.auto()
    RUN_MACHINE_UNKNOWN = enum.auto()
    RUN_KEPT_ELSEWHERE = enum.auto()
    RUN_ONE_EXPERT = enum.auto()
    # -- rules, said in numbers ---
    NUMBER = enum.auto()
    RULE_UNKNOWN = enum.auto()
    RULE_MOMENT = enum.auto()
    RULE_PARAMETERS = enum.auto()
    RULE_DIGEST = enum.auto()
    TOML_SYNTAX = enum.auto()
    TOML_FIELD = enum.auto()
    # -- pins, said in numbers ---
    PIN_INVALID = enum.auto()
    PIN_STALE = enum.auto()
    PIN_EXPLAINED = enum.auto()
    PIN_ALARM = enum.auto()
    PIN_UNSOURCED = enum.auto()
    PIN_HAND_EDITED = enum.auto()
    PIN_STAMP = enum.auto()
    PIN_PREDATES = enum.auto()
    PIN_UNMEASURED = enum.auto()
    PIN_PROPOSAL = enum.auto()
    PIN_LOWERED = enum.auto()
    PIN_UNWRITTEN = enum.auto()
    PIN_WEIGHTS = enum.auto()
    # -- verdicts, said in numbers ---
    VERDICT_MISMATCH = enum.auto()
    VERDICT_PIN = enum.auto()
    JUDGEMENT_UNREADABLE = enum.auto()
    JUDGEMENT_DISOWNED = enum.auto()
    VERDICT_UNKNOWN_RULE = enum.auto()
    RULE_NAME_TAKEN = enum.auto()
    SUPERSEDE_REPLACEMENT = enum.auto()
    VERDICT_UNTRACED_PIN = enum.auto()
    VERDICT_OLDER_READING = enum.auto()
    # -- claims, said in numbers ---
    CLAIM_CONTRADICTED = enum.auto()
    CLAIM_AMBIGUOUS = enum.auto()
    CLAIM_NO_RECEIPT = enum.auto()
    CLAIM_STALE = enum.auto()
    CLAIM_UNSEALED = enum.auto()
    # -- attestation, said in attestation ---
    QUOTE_MALFORMED = enum.auto()
    QUOTE_CHAIN = enum.auto()
    QUOTE_REVOKED = enum.auto()
    QUOTE_SIGNATURE = enum.auto()
    QUOTE_COLLATERAL = enum.auto()
    QUOTE_EXPIRED = enum.auto()
    QUOTE_ENCLAVE = enum.auto()
    QUOTE_TCB = enum.auto()
    QUOTE_DEBUG = enum.auto()
    QUOTE_ATTRIBUTES = enum.auto()
    QUOTE_PLATFORM = enum.auto()
    QUOTE_PLATFORM_UNSAID = enum.auto()
    QUOTE_MEASUREMENT = enum.auto()
    QUOTE_UNPINNED = enum.auto()
    QUOTE_BINDING = enum.auto()
    QUOTE_CHECKERS_DISAGREE = enum.auto()
    QUOTE_ONE_CHECKER = enum.auto()
    QUOTE_NO_ANCHOR = enum.auto()
    QUOTE_NO_COLLATERAL = enum.auto()
    QUOTE_MALLEABLE = enum.auto()
    QUOTE_ADVISORIES = enum.auto()
    QUOTE_TIME_UNBOUND = enum.auto()
    ATTESTATION_MISSING = enum.auto()
    ATTESTATION_REPEATED = enum.auto()
    ATTESTATION_UNREADABLE = enum.auto()
    ATTESTATION_KIND = enum.auto()
    TOKEN_MALFORMED = enum.auto()
    TOKEN_SIGNATURE = enum.auto()
    TOKEN_EXPIRED = enum.auto()
    TOKEN_REFUSED = enum.auto()
    TOKEN_BINDING = enum.auto()
    TOKEN_NO_KEY = enum.auto()
    TOKEN_UNSTATED = enum.auto()

    @property
    def id(self) -> str:
        """Stable public spelling."""
        return "K3L-" + self.name.replace("_", "-")

    @property
    def info(self) -> CodeInfo:
        """The registry row."""
        from k3_ledger.schemas.findings.rows import ROWS  # noqa: PLC0415 - only who has something to say needs the words

        return ROWS[self.name]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a verifier, an auditor or a writer reports.

    Attributes:
        code: the registry row; carries severity and the generic hint.
        message: this occurrence, in one lower-case sentence without a final full stop. Addresses in it, in the hint and
            in the position are kept as they may be said (:mod:`k3_ledger.schemas.addresses`).
        position: where it stands.
        expected: what would have been right, as text, when there is one right value.
        found: what was there instead, as text (shortened to a readable length).
        hint: what to do, when it differs from the registry's hint.
    """

    code: Code
    message: str
    position: Position = NOWHERE
    expected: str | None = None
    found: str | None = None
    hint: str | None = None

    def __post_init__(self) -> None:
        source = self.position.source
        if not any(text is not None and ":/" in text for text in (self.message, self.hint, source)):
            return
        from k3_ledger.schemas.addresses import masked, said  # noqa: PLC0415 - few findings name an address

        object.__setattr__(self, "message", masked(self.message))
        object.__setattr__(self, "hint", None if self.hint is None else masked(self.hint))
        if source is not None:
            object.__setattr__(self, "position", replace(self.position, source=said(source)))

    @property
    def severity(self) -> Severity:
        """Severity of the code."""
        return self.code.info.severity

    @property
    def advice(self) -> str:
        """The specific hint, or the registry's."""
        return self.hint if self.hint is not None else self.code.info.hint

    def as_dict(self) -> dict[str, object]:
        """JSON form used by ``--json`` (absent fields are left out)."""
        place = {
            "source": self.position.source,
            "line": self.position.line,
            "byte_offset": self.position.byte_offset,
            "index": self.position.index,
            "field": self.position.field,
        }
        out: dict[str, object] = {
            "code": self.code.id,
            "severity": str(self.severity),
            "message": self.message,
            "position": {k: v for k, v in place.items() if v is not None},
            "hint": self.advice,
        }
        if self.expected is not None:
            out["expected"] = self.expected
        if self.found is not None:
            out["found"] = self.found
        return out
