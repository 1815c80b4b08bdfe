"""The registry of finding codes: everything a verifier, an auditor or a writer can report has a row here.

A code's spelling (``K3L-`` plus its member name with dashes) is part of the public interface and never changes
meaning; a code is retired, not reused. ``docs/findings.md`` is generated from this table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from k3_ledger.schemas.outcomes import NOWHERE, ExitCode, Position, Severity

E, W, N = Severity.ERROR, Severity.WARNING, Severity.NOTE


class Area(enum.StrEnum):
    """Groups codes by the part of the work that reports them (the sections of docs/findings.md)."""

    INPUT = "input"
    FRAMING = "framing"
    CANONICAL = "canonical JSON"
    SCHEMA = "schema"
    CHAIN = "chain"
    SIGNATURE = "signatures"
    KEYS = "keys"
    CHECKPOINT = "checkpoint"
    WITNESS = "witnesses"
    PROOF = "proofs"
    MIRROR = "tiles, mirrors and archives"
    TIMESTAMP = "timestamps"
    ARTIFACT = "artifacts"
    RECEIPT = "receipt semantics"
    STORE = "store"
    POLICY = "trust policy"
    FOREIGN = "foreign logs"
    MODEL = "model files"
    PARITY = "parity"
    RUN = "runs"
    RULES = "rules and numbers"
    PINS = "pins"
    VERDICTS = "verdicts"
    CLAIMS = "claims"
    ATTESTATION = "attestations"


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """One row of the registry.

    Attributes:
        area: the section it is listed under.
        severity: error findings decide the verdict; warnings and notes never do.
        title: a few words, lower case, no full stop.
        meaning: what was observed and what it implies, in one or two sentences.
        hint: what the reader can do about it.
        exit_code: exit code when this finding is the most serious one; defaults to 1 for errors, 0 otherwise.
    """

    area: Area
    severity: Severity
    title: str
    meaning: str
    hint: str
    exit_code: ExitCode | None = None

    @property
    def exit(self) -> ExitCode:
        """Exit code this finding asks for."""
        if self.exit_code is not None:
            return self.exit_code
        return ExitCode.FALSE if self.severity is Severity.ERROR else ExitCode.VERIFIED


@enum.unique
class Code(enum.Enum):
    """Every finding code. ``Code.TORN_TAIL.id`` is ``"K3L-TORN-TAIL"``."""

    # -- input ---------------------------------------------------------------------------------------------
    NOT_A_LEDGER = CodeInfo(
        Area.INPUT, E, "not a ledger",
        "No line of the input has the shape of a ledger entry.",
        "point the command at a ledger directory or its ledger.jsonl", ExitCode.UNREADABLE,
    )  # fmt: skip
    EMPTY_LEDGER = CodeInfo(
        Area.INPUT, E, "empty ledger",
        "The ledger file holds no bytes. An empty file proves nothing, so it is not called valid.",
        "restore the file; where it never held an entry, `k3-ledger recover` clears the place for `k3-ledger init`",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    UNREADABLE = CodeInfo(
        Area.INPUT, E, "input cannot be read",
        "A file that is needed is missing or the operating system refused to read it.",
        "check the path and its permissions", ExitCode.UNREADABLE,
    )  # fmt: skip

    # -- framing -------------------------------------------------------------------------------------------
    UTF16 = CodeInfo(
        Area.FRAMING, E, "UTF-16 text",
        "The file was rewritten as UTF-16, so no line of it is an entry any more.",
        "restore the original bytes; on Windows, copy the file instead of redirecting it through a shell",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    BOM = CodeInfo(
        Area.FRAMING, E, "byte order mark",
        "A UTF-8 byte order mark stands in front of a line. An editor put it there; no writer of this format does.",
        "remove the three bytes EF BB BF, or restore the original file",
    )  # fmt: skip
    CRLF = CodeInfo(
        Area.FRAMING, E, "line endings were rewritten",
        "A line ends in CR LF. That is what git does with core.autocrlf, and some editors: the entry may be intact.",
        "mark the ledger '-text' in .gitattributes and check it out again",
    )  # fmt: skip
    BLANK_LINE = CodeInfo(
        Area.FRAMING, E, "blank line",
        "A line holds no bytes. Every line of a ledger is an entry.",
        "restore the original file",
    )  # fmt: skip
    TRAILING_SPACE = CodeInfo(
        Area.FRAMING, E, "trailing spaces",
        "Spaces or tabs follow an entry. An editor put them there; no writer of this format does.",
        "restore the original file",
    )  # fmt: skip
    NUL_BYTES = CodeInfo(
        Area.FRAMING, E, "NUL bytes inside a line",
        "A line holds NUL bytes: a write that never reached the disk was followed by another, or the disk lost data.",
        "restore the file from a copy that verifies",
    )  # fmt: skip
    GLUED_LINES = CodeInfo(
        Area.FRAMING, E, "two entries glued into one line",
        "The head of an entry stands in the middle of a line: a torn write was followed by an append without recovery, "
        "or a line feed was overwritten.",
        "restore the file; the later entry starts at the byte that is named",
    )  # fmt: skip
    LINE_TOO_LONG = CodeInfo(
        Area.FRAMING, E, "line too long",
        "A line is longer than 65,535 bytes. Anything that large belongs in an artifact.",
        "store large content as an artifact and name its digest",
    )  # fmt: skip
    LINE_HEAD = CodeInfo(
        Area.FRAMING, E, "line does not begin like an entry",
        'A line does not begin with the nine bytes {"entry": that every entry begins with.',
        "compare the line with a copy that verifies",
    )  # fmt: skip
    LINE_TAIL = CodeInfo(
        Area.FRAMING, E, "line does not end like an entry",
        "The last 98 bytes of a line are not a signature member and a closing brace.",
        "compare the line with a copy that verifies",
    )  # fmt: skip
    SIGNATURE_BASE64 = CodeInfo(
        Area.FRAMING, E, "signature is not strict base64",
        "The signature's 88 characters are not the one accepted spelling of 64 bytes.",
        "compare the line with a copy that verifies",
    )  # fmt: skip
    TORN_TAIL = CodeInfo(
        Area.FRAMING, E, "torn tail",
        "The bytes after the last line feed are the beginning of an entry: a write was cut short. No acknowledged "
        "entry is lost by that.",
        "run `k3-ledger recover`, which keeps the cut bytes aside", ExitCode.TORN_TAIL,
    )  # fmt: skip
    NUL_TAIL = CodeInfo(
        Area.FRAMING, E, "torn tail filled with NUL bytes",
        "The file ends in NUL bytes: it grew, and the power failed before the data followed. No acknowledged entry is "
        "lost by that.",
        "run `k3-ledger recover`, which keeps the cut bytes aside", ExitCode.TORN_TAIL,
    )  # fmt: skip
    TAIL_DAMAGED = CodeInfo(
        Area.FRAMING, E, "damaged tail",
        "The bytes after the last line feed are not what a cut write leaves behind: they were changed or added.",
        "restore the file from a copy that verifies",
    )  # fmt: skip

    # -- keys: files ---------------------------------------------------------------------------------------
    KEY_FILE_UNREADABLE = CodeInfo(
        Area.KEYS, E, "key file cannot be read",
        "The key file is missing, is not a regular file, or the operating system refused to open it.",
        "check the path and who may read it", ExitCode.UNREADABLE,
    )  # fmt: skip
    KEY_FILE_EXPOSED = CodeInfo(
        Area.KEYS, E, "private key exposed",
        "Others than its owner can read or write the private key file.",
        "chmod 600 the file; rotate the key if others may have read it", ExitCode.USAGE,
    )  # fmt: skip
    KEY_FILE_PASSPHRASE = CodeInfo(
        Area.KEYS, E, "passphrase missing or wrong",
        "The key file is encrypted and the passphrase is missing or does not open it, or one was given for a file that "
        "has none.",
        "give the passphrase of this very key file", ExitCode.USAGE,
    )  # fmt: skip
    KEY_FILE_MALFORMED = CodeInfo(
        Area.KEYS, E, "not an Ed25519 key file",
        "The file is not PEM, not PKCS#8 or SPKI, not Ed25519, or damaged.",
        "make a key with `k3-ledger keygen`, or restore the file from a copy", ExitCode.UNREADABLE,
    )  # fmt: skip
    KEY_FILE_EXISTS = CodeInfo(
        Area.KEYS, E, "key file exists",
        "A key file stands at that path already. A key that is overwritten is lost for good.",
        "choose another path", ExitCode.USAGE,
    )  # fmt: skip

    # -- store ---------------------------------------------------------------------------------------------
    STORE_MISSING = CodeInfo(
        Area.STORE, E, "no ledger there",
        "The path does not lead to a ledger directory, or to the kind of file that is needed.",
        "check the path; `k3-ledger init` makes a new ledger", ExitCode.UNREADABLE,
    )  # fmt: skip
    STORE_EXISTS = CodeInfo(
        Area.STORE, E, "a ledger stands there already",
        "The path is taken. Nothing is ever overwritten.",
        "choose another path", ExitCode.USAGE,
    )  # fmt: skip
    DISK_FULL = CodeInfo(
        Area.STORE, E, "disk full",
        "The file system, the quota or the file size limit has no room. Nothing that failed was acknowledged.",
        "free space, then try again", ExitCode.UNREADABLE,
    )  # fmt: skip
    DISK_ERROR = CodeInfo(
        Area.STORE, E, "disk error",
        "A read, write or sync failed. Nothing that failed was acknowledged.",
        "check the disk before writing again", ExitCode.UNREADABLE,
    )  # fmt: skip
    READ_ONLY = CodeInfo(
        Area.STORE, E, "read-only file system",
        "Something had to be written and the file system is mounted read-only.",
        "write on the original of a ledger, and other files where the file system is mounted for writing",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    ACCESS_DENIED = CodeInfo(
        Area.STORE, E, "access denied",
        "The operating system refused for want of permission.",
        "run as the owner of the directory, fix its mode, or choose another place", ExitCode.UNREADABLE,
    )  # fmt: skip
    LOCK_BUSY = CodeInfo(
        Area.STORE, E, "another writer holds the ledger",
        "Another process or thread was writing for the whole time that was allowed for waiting. Nothing was appended.",
        "wait for it to end, or allow more time; stop it if it hangs (its lock ends with it)", ExitCode.UNREADABLE,
    )  # fmt: skip
    LOCK_UNSUPPORTED = CodeInfo(
        Area.STORE, E, "file system without locks",
        "The file system grants no locks (often NFS), so two writers could not be kept apart. Nothing was appended.",
        "keep the ledger on a local disk while writing, and copy it afterwards", ExitCode.UNREADABLE,
    )  # fmt: skip
    LOG_REPLACED = CodeInfo(
        Area.STORE, E, "ledger changed under the writer",
        "The ledger was cut or rewritten by something that takes no lock while it was open for writing.",
        "find out what rewrites it (git, rsync, an editor), run `k3-ledger verify`, then write again",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    WRITER_STOPPED = CodeInfo(
        Area.STORE, E, "writer stopped after a failure",
        "A write or sync failed before, so what the disk holds is uncertain. This writer appends nothing more.",
        "check the disk, run `k3-ledger verify`, then open a new writer", ExitCode.UNREADABLE,
    )  # fmt: skip
    ENTRY_TOO_LONG = CodeInfo(
        Area.STORE, E, "entry too long",
        "The entry would not fit into a line of 65,535 bytes. Nothing was appended.",
        "store large content as an artifact and name its digest", ExitCode.UNREADABLE,
    )  # fmt: skip
    RECOVER_REFUSED = CodeInfo(
        Area.STORE, E, "recovery refused",
        "Cutting the tail off would not repair this ledger: acknowledged entries are missing, or it cannot be told.",
        "restore ledger.jsonl from a copy that verifies",
    )  # fmt: skip
    BLOB_DAMAGED = CodeInfo(
        Area.STORE, E, "stored artifact damaged",
        "A file in the artifact store does not hash to its name. It is kept as it is.",
        "move it aside, keep it as evidence, and store the right artifact again",
    )  # fmt: skip
    INDEX_UNUSABLE = CodeInfo(
        Area.STORE, E, "index cannot be used",
        "The derived index cannot be opened or written. The ledger itself is not concerned.",
        "delete index.sqlite and run `k3-ledger index`", ExitCode.UNREADABLE,
    )  # fmt: skip

    # -- artifacts: bundles --------------------------------------------------------------------------------
    BUNDLE_TAR = CodeInfo(
        Area.ARTIFACT, E, "tar not acceptable as a bundle",
        "The tar is damaged, or holds what a bundle never holds: links, devices, climbing or absolute names.",
        "make it with `tar --format=ustar -cf bundle.tar -C BUNDLE .`", ExitCode.UNREADABLE,
    )  # fmt: skip
    BUNDLE_MISSING_FILE = CodeInfo(
        Area.ARTIFACT, E, "bundle is incomplete",
        "bundle.json, or an artifact that it names, is not in the bundle.",
        "copy the whole bundle again from the machine that made it", ExitCode.UNREADABLE,
    )  # fmt: skip
    BUNDLE_EXTRA_FILE = CodeInfo(
        Area.ARTIFACT, E, "bundle holds more than it names",
        "The bundle holds something that bundle.json does not name. It would be lost in sealing.",
        "take it out, or name it in bundle.json", ExitCode.UNREADABLE,
    )  # fmt: skip
    BUNDLE_MISMATCH = CodeInfo(
        Area.ARTIFACT, E, "artifact is not what the bundle says",
        "An artifact's size or digest is not the one that bundle.json names.",
        "copy the bundle again from the machine that made it",
    )  # fmt: skip

    # -- signatures ----------------------------------------------------------------------------------------
    SIGNATURE_LENGTH = CodeInfo(
        Area.SIGNATURE, E, "signature of wrong length",
        "An Ed25519 signature is 64 bytes.",
        "obtain the original signature",
    )  # fmt: skip
    SIGNATURE_S_RANGE = CodeInfo(
        Area.SIGNATURE, E, "signature scalar out of range",
        "S is not below the group order: somebody made a second spelling of a signature (malleability).",
        "obtain the original signature",
    )  # fmt: skip
    SIGNATURE_R_ENCODING = CodeInfo(
        Area.SIGNATURE, E, "signature point not canonical",
        "R is not the one accepted encoding of a point of the curve.",
        "obtain the original signature",
    )  # fmt: skip
    SIGNATURE_R_LOW_ORDER = CodeInfo(
        Area.SIGNATURE, E, "signature point of low order",
        "R is one of the eight points whose order divides eight. No honest signer produces it.",
        "treat the signer as hostile",
    )  # fmt: skip
    SIGNATURE_MISMATCH = CodeInfo(
        Area.SIGNATURE, E, "bad signature",
        "The signature does not belong to this message and key: one of the three was changed.",
        "compare with a copy that verifies",
    )  # fmt: skip

    # -- keys ----------------------------------------------------------------------------------------------
    PUBLIC_KEY_LENGTH = CodeInfo(
        Area.KEYS, E, "public key of wrong length",
        "A raw Ed25519 public key is 32 bytes.",
        "obtain the original key",
    )  # fmt: skip
    PUBLIC_KEY_ENCODING = CodeInfo(
        Area.KEYS, E, "public key is not a point",
        "The public key is not the one accepted encoding of a point of the curve.",
        "obtain the original key",
    )  # fmt: skip
    PUBLIC_KEY_LOW_ORDER = CodeInfo(
        Area.KEYS, E, "public key of low order",
        "The public key is one of the eight points whose order divides eight: anybody can sign for it.",
        "refuse the key; whoever offers it is hostile or broken",
    )  # fmt: skip
    PUBLIC_KEY_MIXED_ORDER = CodeInfo(
        Area.KEYS, E, "public key outside the prime-order subgroup",
        "The public key has a torsion component, so verifiers disagree about its signatures. No honest tool makes it.",
        "refuse the key; whoever offers it is hostile or broken",
    )  # fmt: skip

    # -- notes and checkpoints -----------------------------------------------------------------------------
    NOTE_MALFORMED = CodeInfo(
        Area.CHECKPOINT, E, "not a signed note",
        "The bytes are not a C2SP signed note: text, a blank line, and signature lines.",
        "obtain the note again; a file of NUL bytes is what a power failure leaves of one",
    )  # fmt: skip
    NOTE_SIGNATURE = CodeInfo(
        Area.CHECKPOINT, E, "bad signature on a note",
        "A key that is known signed another text, or the text or the signature was changed.",
        "obtain the note again from its author",
    )  # fmt: skip
    NOTE_UNSIGNED = CodeInfo(
        Area.CHECKPOINT, E, "note signed by no known key",
        "None of the note's signatures is by a key that was asked for.",
        "check that the right keys are trusted",
    )  # fmt: skip
    VERIFIER_KEY = CodeInfo(
        Area.KEYS, E, "malformed verifier key",
        "The text is not a verifier key: name, key hash and base64 key, joined by plus signs.",
        "copy the whole key, plus signs included",
    )  # fmt: skip
    CHECKPOINT_MALFORMED = CodeInfo(
        Area.CHECKPOINT, E, "not a checkpoint",
        "The note's text is not origin, tree size and root hash, each in its one accepted spelling.",
        "obtain the checkpoint again",
    )  # fmt: skip
    CHECKPOINT_ORIGIN = CodeInfo(
        Area.CHECKPOINT, E, "checkpoint of another log",
        "The checkpoint's origin line is not this log's.",
        "obtain the checkpoint of this log",
    )  # fmt: skip
    CHECKPOINT_AHEAD = CodeInfo(
        Area.CHECKPOINT, E, "entries are missing",
        "The checkpoint commits to more entries than are there: the end of the ledger was cut off.",
        "restore the whole ledger; entries that a signed head commits to have existed",
    )  # fmt: skip
    CHECKPOINT_ROOT = CodeInfo(
        Area.CHECKPOINT, E, "checkpoint commits to other entries",
        "The Merkle root of the entries is not the one that was signed: an entry or a signature was changed.",
        "restore the ledger from a copy that verifies",
    )  # fmt: skip

    # -- witnesses ------------------------------------------------------------------------------------------
    WITNESS_QUORUM = CodeInfo(
        Area.WITNESS, E, "too few witnesses",
        "Fewer operators of witnesses that the trust policy names cosigned the newest signed head than it asks for.",
        "ask for a cosigned checkpoint; until then the head may have been made for you alone",
    )  # fmt: skip
    UNWITNESSED = CodeInfo(
        Area.CHECKPOINT, W, "entries that no quorum has seen",
        "Signed heads of the log commit to more entries than any head with the quorum that the trust policy asks for. "
        "The entries beyond it may have been made for you alone.",
        "wait until witnesses have cosigned a newer head, or require the step 'witnesses' in the trust policy",
    )  # fmt: skip
    CHECKPOINT_MISNAMED = CodeInfo(
        Area.CHECKPOINT, W, "kept head under another one's name",
        "A file in checkpoints/ is named after one tree size and holds a signed head of another. The head of the size "
        "that the name says may have been taken away.",
        "put the right head back from a copy, or rename the file after the size in its second line",
    )  # fmt: skip
    COSIGNATURE_BAD = CodeInfo(
        Area.WITNESS, E, "bad cosignature",
        "A line under the name and key hash of a trusted witness is not a cosignature of this head.",
        "obtain the note again; ask the witness what it signed",
    )  # fmt: skip
    COSIGNATURE_TIMELESS = CodeInfo(
        Area.WITNESS, W, "cosignature without a time",
        "A witness signed with the time 0, which stands for none. The cosignature counts for nothing.",
        "ask the witness to cosign again",
    )  # fmt: skip
    COSIGNATURE_REPEATED = CodeInfo(
        Area.WITNESS, N, "operator counted once",
        "Cosignatures are by several witnesses of one operator. They count as one.",
        "name more witnesses, of different operators, in the trust policy",
    )  # fmt: skip
    WITNESS_NOT_INDEPENDENT = CodeInfo(
        Area.WITNESS, W, "witness key is the log's own",
        "A key that the trust policy names as a witness's has another role in this ledger. Who signs a log cannot "
        "witness it, so its cosignatures count for nothing.",
        "name witnesses that others run",
    )  # fmt: skip
    WITNESS_REQUEST = CodeInfo(
        Area.WITNESS, E, "malformed request to a witness",
        "The bytes are not what a witness can be asked: the old size, a proof, a blank line and a checkpoint.",
        "make the request with `k3-ledger cosign`, or with another client of the tlog-witness protocol",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    WITNESS_ORIGIN = CodeInfo(
        Area.WITNESS, E, "log unknown to the witness",
        "The witness was not told about a log of this origin, so it has no key to check its heads with.",
        "its operator adds the log with `k3-ledger witness add-log`",
    )  # fmt: skip
    WITNESS_OLD_SIZE = CodeInfo(
        Area.WITNESS, E, "proof from another size",
        "The proof does not start from the head that the witness cosigned last.",
        "ask again with a proof from the size that the witness names",
    )  # fmt: skip
    WITNESS_SMALLER = CodeInfo(
        Area.WITNESS, E, "smaller than what the proof starts from",
        "The head is smaller than the one that it is said to extend. A smaller head is never cosigned.",
        "ask for the newest head to be cosigned",
    )  # fmt: skip
    WITNESS_FORK = CodeInfo(
        Area.WITNESS, E, "fork shown to a witness",
        "The log signed two heads of one size with different roots. The witness cosigned the first and keeps both.",
        "the two signed notes together prove the fork: publish them",
    )  # fmt: skip
    WITNESS_STATE = CodeInfo(
        Area.WITNESS, E, "state of a witness cannot be used",
        "What the witness remembers is missing or damaged. It signs nothing rather than start over.",
        "restore the directory as it was when it last signed; if that cannot be known, retire the key and make a new "
        "witness under another name",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    WITNESS_EXISTS = CodeInfo(
        Area.WITNESS, E, "a witness stands there already",
        "The directory holds the state of a witness. Nothing is ever overwritten.",
        "choose another directory",
        ExitCode.USAGE,
    )  # fmt: skip
    WITNESS_KEY = CodeInfo(
        Area.WITNESS, E, "not this witness's key",
        "The private key is not the one that the directory was made for. Another key is another witness.",
        "give the key file that `k3-ledger witness init` was given",
        ExitCode.USAGE,
    )  # fmt: skip
    WITNESS_CLOCK = CodeInfo(
        Area.WITNESS, E, "clock of the witness went back",
        "The clock stands before the time of the last cosignature, or at no time that can be signed.",
        "set the clock; the witness signs again once it has passed the last time",
    )  # fmt: skip
    WITNESS_UNREACHABLE = CodeInfo(
        Area.WITNESS, E, "witness not reached",
        "The witness gave no answer: no connection, or none in time.",
        "check the address, and try again later",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    WITNESS_ANSWER = CodeInfo(
        Area.WITNESS, E, "answer of a witness cannot be used",
        "What came back is not the answer that the protocol asks for, or not a cosignature by the key that was named.",
        "check address and verifier key of the witness",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    WITNESS_REFUSED = CodeInfo(
        Area.WITNESS, E, "witness refused to cosign",
        "The witness answered, and would not cosign the head.",
        "its reason is shown; a refused proof means that it has seen another history",
    )  # fmt: skip
    WITNESS_AHEAD = CodeInfo(
        Area.WITNESS, E, "witness has seen a larger head",
        "The witness cosigned a head of more entries than this ledger holds: entries are missing here.",
        "do not append: restore the ledger from a copy that holds them",
    )  # fmt: skip

    # -- proofs --------------------------------------------------------------------------------------------
    PROOF_SHAPE = CodeInfo(
        Area.PROOF, E, "proof of wrong shape",
        "A Merkle proof has the wrong number of hashes for its position and tree size, or a position outside the tree.",
        "obtain a proof made for this tree size",
    )  # fmt: skip
    INCLUSION_MISMATCH = CodeInfo(
        Area.PROOF, E, "entry is not in the tree",
        "The inclusion proof leads to another root: the entry, its position, the proof or the root was changed.",
        "obtain the proof again from the ledger",
    )  # fmt: skip
    CONSISTENCY_MISMATCH = CodeInfo(
        Area.PROOF, E, "trees are not consistent",
        "The newer tree does not extend the older one: history was rewritten, or the proof was changed.",
        "keep both signed heads: together they are evidence",
    )  # fmt: skip
    PROOF_FILE = CodeInfo(
        Area.PROOF, E, "malformed proof file",
        "The document is canonical, but its members are not those of a proof file.",
        "make the proof again with `k3-ledger prove`",
    )  # fmt: skip
    PROOF_TOO_LARGE = CodeInfo(
        Area.PROOF, E, "too many entries for a proof file",
        "The entry's signer and the head rest on more key and threshold entries than a proof file may hold.",
        "hand over the ledger itself",
        exit_code=ExitCode.USAGE,
    )  # fmt: skip
    TLOG_PROOF = CodeInfo(
        Area.PROOF, E, "malformed C2SP proof",
        "The text is not a tlog-proof: header, optional extra data, index, hashes, blank line, checkpoint.",
        "obtain the proof again",
    )  # fmt: skip
    NOT_CHECKPOINTED = CodeInfo(
        Area.PROOF, E, "entry not covered by a checkpoint",
        "No signed head commits to the entry yet, so nothing can be proved about it.",
        "sign a checkpoint first (`k3-ledger checkpoint`)",
    )  # fmt: skip

    # -- tiles, mirrors and archives -----------------------------------------------------------------------
    TILE_PATH = CodeInfo(
        Area.MIRROR, E, "not the path of a tile",
        "A path is not one that C2SP tlog-tiles gives to a tile, in its one spelling.",
        "rebuild tile/ with `k3-ledger tiles`", ExitCode.UNREADABLE,
    )  # fmt: skip
    TILE_MALFORMED = CodeInfo(
        Area.MIRROR, E, "malformed tile",
        "A tile or an entry bundle has another length, or holds another number of entries, than its place asks for.",
        "rebuild tile/ with `k3-ledger tiles`, or fetch it again",
    )  # fmt: skip
    TILE_MISMATCH = CodeInfo(
        Area.MIRROR, E, "tile does not lead to the signed root",
        "A tile or an entry bundle holds something else than what the signed head commits to.",
        "rebuild tile/ with `k3-ledger tiles`; on somebody else's mirror, keep it and the signed head as evidence",
    )  # fmt: skip
    TILE_MISSING = CodeInfo(
        Area.MIRROR, E, "tile is not there",
        "A tile that is needed could not be had, so nothing can be said about what it holds.",
        "ask another mirror, or the log itself", ExitCode.NOT_CHECKED,
    )  # fmt: skip
    MIRROR_INCOMPLETE = CodeInfo(
        Area.MIRROR, E, "mirror lacks entries",
        "Some entries that the signed head commits to are not on this mirror. What is there was checked; what is "
        "missing was not, so the log as a whole was not verified.",
        "ask another mirror, or the log itself, for what is missing", ExitCode.NOT_CHECKED,
    )  # fmt: skip
    TILES_CONFLICT = CodeInfo(
        Area.MIRROR, E, "full tile is not what the ledger makes",
        "A full tile never changes, and the one that stands there holds something else than the ledger.",
        "one of the two was changed: verify the ledger, then move tile/ away and run `k3-ledger tiles` again",
    )  # fmt: skip
    REMOTE_UNREADABLE = CodeInfo(
        Area.MIRROR, E, "address cannot be read",
        "Something that is needed could not be fetched, or the transfer ended early.",
        "try again, check the address, or ask another mirror", ExitCode.UNREADABLE,
    )  # fmt: skip
    KEY_ENTRIES_WRONG = CodeInfo(
        Area.MIRROR, E, "the mirror's list of key entries is wrong",
        "The file key-entries leaves out entries that enrol keys. With all entries read instead of it, the proof "
        "holds: nothing is wrong with the log.",
        "rebuild it with `k3-ledger tiles`, or ask another mirror", ExitCode.UNREADABLE,
    )  # fmt: skip
    ARCHIVE_REFUSED = CodeInfo(
        Area.MIRROR, E, "archive not acceptable",
        "The file is no tar of a ledger or of an offline bundle: it is damaged, or holds links, devices, climbing "
        "names, members that stand twice, or more than its own list names.",
        "make it with `k3-ledger bundle pack`, or with `tar --format=ustar -cf ledger.tar -C LEDGER .`",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    ARCHIVE_MISMATCH = CodeInfo(
        Area.MIRROR, E, "file in an offline bundle was changed",
        "A file in an offline bundle does not hash to what the bundle's own list says of it.",
        "obtain the bundle again",
    )  # fmt: skip
    ARCHIVE_POLICY = CodeInfo(
        Area.MIRROR, N, "packed under another trust policy",
        "The offline bundle names the digest of the trust policy that its maker verified it under; yours is another.",
        "ask its maker for the policy, and decide for yourself whether you share it",
    )  # fmt: skip

    # -- timestamps ----------------------------------------------------------------------------------------
    TIMESTAMP_UNREADABLE = CodeInfo(
        Area.TIMESTAMP, W, "timestamp cannot be read",
        "A file in timestamps/ is no RFC 3161 response over a SHA-256 digest that can be read. It bounds nothing.",
        "ask the authority again: `k3-ledger timestamp request`",
    )  # fmt: skip
    TIMESTAMP_UNTRUSTED = CodeInfo(
        Area.TIMESTAMP, N, "timestamp by an authority that is not named",
        "The certificate of a timestamp leads to none of the roots in the trust policy, so it was not checked.",
        "if you trust that authority, add its root: `k3-ledger trust add timestamps ROOT.pem`",
    )  # fmt: skip
    TIMESTAMP_BAD = CodeInfo(
        Area.TIMESTAMP, E, "timestamp does not hold",
        "A timestamp names an authority that the trust policy trusts, and is not what that authority signed.",
        "remove the file, or obtain it again: somebody changed it, or its signer's certificate is not for timestamps",
    )  # fmt: skip
    TIMESTAMP_ELSEWHERE = CodeInfo(
        Area.TIMESTAMP, N, "timestamp of something else",
        "A timestamp holds, and is of a digest that is none of the signed heads that are here. It bounds nothing.",
        "keep the signed head that it is of in checkpoints/",
    )  # fmt: skip

    # -- canonical JSON ------------------------------------------------------------------------------------
    JSON_TOO_LONG = CodeInfo(
        Area.CANONICAL, E, "document too long",
        "A JSON document has more bytes than its limit. It was refused before it was read.",
        "move large content into an artifact and name it by its digest",
    )  # fmt: skip
    JSON_BYTE_ORDER_MARK = CodeInfo(
        Area.CANONICAL, E, "byte order mark",
        "A JSON document starts with a UTF-8 byte order mark. Editors add it; the format forbids it.",
        "save the file as UTF-8 without a byte order mark",
    )  # fmt: skip
    JSON_NOT_UTF8 = CodeInfo(
        Area.CANONICAL, E, "not UTF-8",
        "A JSON document holds bytes that are no UTF-8 text.",
        "save the file as UTF-8, or put binary content into an artifact",
    )  # fmt: skip
    JSON_SYNTAX = CodeInfo(
        Area.CANONICAL, E, "not JSON",
        "The bytes do not follow the grammar of JSON at this place.",
        "compare the byte offset with what was expected there",
    )  # fmt: skip
    JSON_TRAILING_BYTES = CodeInfo(
        Area.CANONICAL, E, "bytes after the value",
        "A complete JSON value is followed by more bytes, so the document holds more than one thing.",
        "keep one value per document",
    )  # fmt: skip
    JSON_TOO_DEEP = CodeInfo(
        Area.CANONICAL, E, "nested too deeply",
        "More brackets are open at once than the limit allows. Such input is built to exhaust a parser.",
        "flatten the value",
    )  # fmt: skip
    JSON_TOO_MANY_ITEMS = CodeInfo(
        Area.CANONICAL, E, "too many values",
        "A JSON document holds more values than the limit allows.",
        "move large content into an artifact and name it by its digest",
    )  # fmt: skip
    JSON_STRING_TOO_LONG = CodeInfo(
        Area.CANONICAL, E, "string too long",
        "One string or key has more characters than the limit allows.",
        "move long text into an artifact and name it by its digest",
    )  # fmt: skip
    JSON_CONTROL_CHARACTER = CodeInfo(
        Area.CANONICAL, E, "raw control character in a string",
        "A string holds an unescaped character below U+0020, which JSON forbids.",
        "escape it, for example as \\n",
    )  # fmt: skip
    JSON_ESCAPE = CodeInfo(
        Area.CANONICAL, E, "unknown escape",
        "A backslash in a string starts an escape that JSON does not have.",
        "write a backslash as two backslashes",
    )  # fmt: skip
    JSON_LONE_SURROGATE = CodeInfo(
        Area.CANONICAL, E, "lone surrogate",
        "A string holds half of a UTF-16 surrogate pair, escaped or as raw bytes. "
        "It is no character, and implementations turn it into different bytes.",
        "write the whole character, or keep such bytes in an artifact",
    )  # fmt: skip
    JSON_FLOAT = CodeInfo(
        Area.CANONICAL, E, "fractional number",
        "A number has a fraction or an exponent. "
        "Such numbers have several spellings, and serialisers disagree about them.",
        "use an integer in a smaller unit, or a decimal string",
    )  # fmt: skip
    JSON_NOT_A_NUMBER = CodeInfo(
        Area.CANONICAL, E, "NaN or Infinity",
        "A number is NaN or infinite. JSON has no such value, and comparisons with NaN are false both ways.",
        "find out why the measurement gave no number",
    )  # fmt: skip
    JSON_NEGATIVE_ZERO = CodeInfo(
        Area.CANONICAL, E, "minus zero",
        "The number -0 is a second spelling of 0.",
        "write 0",
    )  # fmt: skip
    JSON_LEADING_ZERO = CodeInfo(
        Area.CANONICAL, E, "leading zero",
        "A number starts with a zero that carries no value.",
        "write the number without it",
    )  # fmt: skip
    JSON_INTEGER_RANGE = CodeInfo(
        Area.CANONICAL, E, "integer out of range",
        "An integer lies outside ±(2^53-1), "
        "where doubles merge neighbours and one signature would stand for two records.",
        "write it as a decimal string, or count from the start of the run",
    )  # fmt: skip
    JSON_DUPLICATE_KEY = CodeInfo(
        Area.CANONICAL, E, "duplicate key",
        "A key stands twice in one object, after unescaping. Readers differ in which of the two they show.",
        "keep one of the two",
    )  # fmt: skip
    JSON_KEY_ALPHABET = CodeInfo(
        Area.CANONICAL, E, "key outside the alphabet",
        "An object key is empty or holds a character other than a-z, 0-9 and _.",
        "rename the key",
    )  # fmt: skip
    JSON_TYPE = CodeInfo(
        Area.CANONICAL, E, "type without a spelling",
        "A value that was to be written has a type that canonical JSON does not have.",
        "convert it to an integer, a string, a list or an object first",
    )  # fmt: skip
    JSON_NOT_CANONICAL = CodeInfo(
        Area.CANONICAL, E, "not canonical",
        "The value is fine but its bytes are not the one canonical spelling: white space, key order or escapes differ. "
        "Signed bytes are never rewritten, so they are refused.",
        "write the value with the canonical formatter before it is signed",
    )  # fmt: skip

    # -- schema --------------------------------------------------------------------------------------------
    SCHEMA_UNKNOWN_KIND = CodeInfo(
        Area.SCHEMA, E, "unknown entry kind",
        "An entry's kind is none of those that format version 1 has.",
        "use a newer version of this program if the log is newer than it",
    )  # fmt: skip
    SCHEMA_VERSION = CodeInfo(
        Area.SCHEMA, E, "unsupported schema version",
        "The kind is known, but its schema has a version that this program does not. The entry was not judged.",
        "use a newer version of this program",
    )  # fmt: skip
    SCHEMA_UNKNOWN_FIELD = CodeInfo(
        Area.SCHEMA, E, "unknown field",
        "An object holds a field that its model does not have. Unknown content is never skipped under a signature.",
        "remove the field, or look at its spelling",
    )  # fmt: skip
    SCHEMA_MISSING_FIELD = CodeInfo(
        Area.SCHEMA, E, "missing field",
        "An object lacks a field of its model. Every field is always written, so that one value has one encoding.",
        "write the field, as null or [] where there is nothing to say",
    )  # fmt: skip
    SCHEMA_TYPE = CodeInfo(
        Area.SCHEMA, E, "wrong type",
        "A field holds another JSON type than its model asks for.",
        "see what was expected at this field",
    )  # fmt: skip
    SCHEMA_VALUE = CodeInfo(
        Area.SCHEMA, E, "value not allowed",
        "A field has the right type, but its value breaks a constraint: a pattern, a range, a length or a choice.",
        "see what was expected at this field",
    )  # fmt: skip

    # -- model files ---------------------------------------------------------------------------------------
    GGUF_MAGIC = CodeInfo(
        Area.MODEL, E, "not a GGUF file",
        "The file does not begin with the GGUF magic.",
        "point the command at a .gguf file", ExitCode.UNREADABLE,
    )  # fmt: skip
    GGUF_BYTE_ORDER = CodeInfo(
        Area.MODEL, E, "big-endian GGUF file",
        "The header is written in big-endian byte order, which this reader does not take.",
        "convert the file to little-endian", ExitCode.UNREADABLE,
    )  # fmt: skip
    GGUF_VERSION = CodeInfo(
        Area.MODEL, E, "unsupported GGUF version",
        "The container's version is not one this reader knows.",
        "use a file of GGUF version 2 or 3", ExitCode.UNREADABLE,
    )  # fmt: skip
    GGUF_LENGTH = CodeInfo(
        Area.MODEL, E, "length passes the end of the file",
        "A count or a length in the header asks for more bytes than the file has, or than a header may have.",
        "the file is cut short or hostile: fetch it again", ExitCode.UNREADABLE,
    )  # fmt: skip
    GGUF_ALIGNMENT = CodeInfo(
        Area.MODEL, E, "bad alignment",
        "general.alignment is not a power of two between 8 and 1 MiB, or a tensor does not start on it.",
        "write the file again", ExitCode.UNREADABLE,
    )  # fmt: skip
    GGUF_DUPLICATE = CodeInfo(
        Area.MODEL, E, "name used twice",
        "A key or a tensor name appears twice, so two readers could load two different models from one file.",
        "write the file again with each name once", ExitCode.UNREADABLE,
    )  # fmt: skip
    GGUF_VALUE = CodeInfo(
        Area.MODEL, E, "malformed header value",
        "A header value has an unknown type, is not UTF-8, is a boolean other than 0 or 1, or nests arrays.",
        "write the file again", ExitCode.UNREADABLE,
    )  # fmt: skip
    GGUF_TENSOR = CodeInfo(
        Area.MODEL, E, "malformed tensor description",
        "A tensor's shape, place or size contradicts its storage type or its neighbours.",
        "write the file again", ExitCode.UNREADABLE,
    )  # fmt: skip
    GGUF_QUANTISATION = CodeInfo(
        Area.MODEL, E, "unsupported quantisation",
        "A tensor is stored in a type this engine does not read.",
        "use F32, F16, BF16, Q8_0, MXFP4 or IQ1_S",
    )  # fmt: skip
    GGUF_SHARDS = CodeInfo(
        Area.MODEL, E, "shards incomplete or contradictory",
        "A split file's parts are missing, appear twice or disagree on their number or on their tensors.",
        "fetch every part of the same split again",
    )  # fmt: skip
    MODEL_ARCHITECTURE = CodeInfo(
        Area.MODEL, E, "other architecture",
        "The file's architecture is not kimi-k3.",
        "only K3-shaped models are run by this engine",
    )  # fmt: skip
    MODEL_KEY_MISSING = CodeInfo(
        Area.MODEL, E, "required key missing",
        "The header lacks a key without which the forward pass would be guessed.",
        "write the file again with the key, or name it with --allow-missing where that is offered",
    )  # fmt: skip
    MODEL_KEY_VALUE = CodeInfo(
        Area.MODEL, E, "unusable key value",
        "A header key has a value of the wrong type or out of range, or two keys contradict one another.",
        "write the file again",
    )  # fmt: skip
    MODEL_TENSOR_MISSING = CodeInfo(
        Area.MODEL, E, "tensor missing",
        "A tensor of the architecture is not in the file. Some loaders skip it in silence and compute something else.",
        "write the file again with the tensor, or name it with --allow-missing where that is offered",
    )  # fmt: skip
    MODEL_TENSOR_SHAPE = CodeInfo(
        Area.MODEL, E, "tensor has another shape",
        "A tensor's shape is not what the header's sizes ask for, or its storage type cannot hold its role.",
        "write the file again",
    )  # fmt: skip
    MODEL_TENSOR_UNKNOWN = CodeInfo(
        Area.MODEL, E, "tensor without a role",
        "The file holds a tensor that the architecture does not use, so part of the weights would be ignored.",
        "remove it, or name it with --allow-unknown",
    )  # fmt: skip
    MODEL_WEIGHT_VALUE = CodeInfo(
        Area.MODEL, E, "weight is not a number",
        "A stored weight or a block's scale decodes to NaN or infinity.",
        "fetch or write the file again",
    )  # fmt: skip
    MODEL_DOES_NOT_FIT = CodeInfo(
        Area.MODEL, E, "model does not fit",
        "Weights, cache, state and buffers together need more memory than the node has.",
        "take fewer layers, a smaller context, another quantisation or more memory",
    )  # fmt: skip
    TOKENIZER_UNSUPPORTED = CodeInfo(
        Area.MODEL, E, "unsupported tokenizer",
        "The file's tokenizer is of another kind, or lacks tokens, merges or special ids.",
        "use a file that carries a kimi-k2 byte-level BPE vocabulary",
    )  # fmt: skip
    # -- parity --------------------------------------------------------------------------------------------
    PARITY_PROMPTS_DIFFER = CodeInfo(
        Area.PARITY, E, "different prompts",
        "The two engines were not given the same token ids, so their logits say nothing about one another.",
        "send token ids, not text, and compare their digests first",
    )  # fmt: skip
    PARITY_TRUNCATED = CodeInfo(
        Area.PARITY, E, "truncated logits",
        "A row does not hold one value for every token of the vocabulary; missing ids are not zeros.",
        "ask the engine for the full vocabulary",
    )  # fmt: skip
    PARITY_PROCESSED = CodeInfo(
        Area.PARITY, E, "processed logits",
        "One side's logits went through a temperature, a penalty or a filter before they were recorded.",
        "record raw logits on both sides",
    )  # fmt: skip
    PARITY_NOT_FINITE = CodeInfo(
        Area.PARITY, E, "logits are not finite",
        "A logit is NaN or infinite. Two engines that both give NaN do not agree.",
        "see the position in the message",
    )  # fmt: skip
    PARITY_OVER_BOUND = CodeInfo(
        Area.PARITY, E, "parity bound exceeded",
        "At one depth the two engines differ by more than the stated bound.",
        "the forward pass is wrong, or the bound is for another storage type",
    )  # fmt: skip
    PARITY_PERFECT_ZERO = CodeInfo(
        Area.PARITY, W, "suspiciously perfect agreement",
        "Every value agrees to the last bit, which two independent engines never do.",
        "make sure that the reference is not a copy of the candidate's own output",
    )  # fmt: skip
    PARITY_SELF_GRADED = CodeInfo(
        Area.PARITY, N, "self-graded parity",
        "The reference is this project's own code: useful while developing, worth nothing as evidence.",
        "grade against llama.cpp for a record that can count",
    )  # fmt: skip

    # -- rules and numbers ---------------------------------------------------------------------------------
    NUMBER = CodeInfo(
        Area.RULES, E, "not an exact number",
        "A figure is missing, is not a finite decimal number, or carries a unit, so nothing can be computed from it.",
        "write the number alone, such as 56.82; its unit has a field of its own", ExitCode.UNREADABLE,
    )  # fmt: skip
    RULE_UNKNOWN = CodeInfo(
        Area.RULES, E, "unknown rule",
        "No rule of that name is registered. A rule is never guessed from part of a name.",
        "`k3-ledger rules list` shows every rule", ExitCode.USAGE,
    )  # fmt: skip
    RULE_MOMENT = CodeInfo(
        Area.RULES, E, "no rule in force",
        "The moment asked for is older than the first rule, or is no moment at all.",
        "`k3-ledger rules list` shows since when each rule was in force", ExitCode.USAGE,
    )  # fmt: skip
    RULE_PARAMETERS = CodeInfo(
        Area.RULES, E, "not the parameters of a rule",
        "A parameter of a rule is missing, unknown, given twice or of the wrong kind. None is ever defaulted.",
        "`k3-ledger rules show NAME --toml` prints a complete rule to start from", ExitCode.UNREADABLE,
    )  # fmt: skip
    RULE_DIGEST = CodeInfo(
        Area.RULES, E, "a rule entry that states another rule's digest",
        "The digest or the arithmetic that a `rule` entry states is not that of the parameters it carries. Whoever "
        "reads the digest believes in another rule than the one that verdicts are derived by.",
        "publish the rule again as `k3-ledger rules show NAME --body` prints it", ExitCode.FALSE,
    )  # fmt: skip
    TOML_SYNTAX = CodeInfo(
        Area.RULES, E, "not TOML",
        "A file of pins, merges or claims is not TOML, or is not UTF-8.",
        "correct the line that is named", ExitCode.UNREADABLE,
    )  # fmt: skip
    TOML_FIELD = CodeInfo(
        Area.RULES, E, "wrong field in a TOML file",
        "A field of a file of pins, merges or claims is unknown, missing, given twice or of the wrong type.",
        "correct the field that is named; the documentation lists them all", ExitCode.UNREADABLE,
    )  # fmt: skip

    # -- pins ----------------------------------------------------------------------------------------------
    PIN_INVALID = CodeInfo(
        Area.PINS, E, "not a pin",
        "A pin is zero, negative, missing or in another metric's unit, so nothing can be held against it.",
        "pin a measured value above zero, in the unit of its metric", ExitCode.UNREADABLE,
    )  # fmt: skip
    PIN_STALE = CodeInfo(
        Area.PINS, E, "stale pin",
        "The newest measurement differs from the pin by more than the threshold and no merged winner explains it: "
        "whoever is scored against the pin is scored against the wrong number.",
        "measure again; `reconcile --write` raises a pin that is too low",
    )  # fmt: skip
    PIN_EXPLAINED = CodeInfo(
        Area.PINS, W, "pin behind a merged winner",
        "The newest measurement is above the pin by more than the threshold, and the last merged winner explains it.",
        "`reconcile --write` raises the pin",
    )  # fmt: skip
    PIN_ALARM = CodeInfo(
        Area.PINS, E, "measurement far below the pin",
        "The newest measurement is below nine tenths of the pin: a bad build, a slow machine, or a regression.",
        "find the cause and measure again before anything is scored; a pin is never lowered",
    )  # fmt: skip
    PIN_UNSOURCED = CodeInfo(
        Area.PINS, E, "pin without a source",
        "The pin names no receipt, or one that is not in the ledger, so nobody can say where its value was measured.",
        "name the receipt that the value was measured in",
    )  # fmt: skip
    PIN_HAND_EDITED = CodeInfo(
        Area.PINS, E, "pin edited by hand",
        "The pin's value is not the one that the receipt it names measured on that slot.",
        "restore the measured value, or name the receipt that measured this one",
    )  # fmt: skip
    PIN_PREDATES = CodeInfo(
        Area.PINS, W, "pin older than merged work",
        "The pin was measured before work that has been merged on the same model and node since.",
        "measure the frontier again",
    )  # fmt: skip
    PIN_UNMEASURED = CodeInfo(
        Area.PINS, N, "pin without a measurement",
        "No receipt measures the pin's slot, so its drift was not checked.",
        "seal a measurement of the slot",
    )  # fmt: skip
    PIN_PROPOSAL = CodeInfo(
        Area.PINS, W, "pin differs from its proposal",
        "The file proposes another value than the ledger's own pin entry, which is the one that counts.",
        "append a pin entry, or bring the file in line",
    )  # fmt: skip
    PIN_LOWERED = CodeInfo(
        Area.PINS, E, "pin proposed lower",
        "The file proposes a lower value than the ledger's own pin entry. Pins only ever rise.",
        "restore the value of the pin entry",
    )  # fmt: skip

    # -- input: verifier -------------------------------------------------------------------------------------
    CHANGED_WHILE_READ = CodeInfo(
        Area.INPUT, E, "log changed after it was verified",
        "The log was read again after verification and its bytes were others.",
        "verify a copy that nobody writes to",
        ExitCode.UNREADABLE,
    )  # fmt: skip

    # -- chain: verifier -------------------------------------------------------------------------------------
    CHAIN_NO_GENESIS = CodeInfo(
        Area.CHAIN, E, "beginning is missing",
        "The first line is not a genesis entry: entries in front of it are gone, or this is a fragment.",
        "get the whole log; a proof file is the way to show a single entry",
    )  # fmt: skip
    CHAIN_SECOND_GENESIS = CodeInfo(
        Area.CHAIN, E, "second ledger joined",
        "A genesis entry stands after the first line: two logs were put into one file.",
        "split the file where the second log begins and verify each",
    )  # fmt: skip
    CHAIN_INDEX = CodeInfo(
        Area.CHAIN, E, "entry out of order",
        "An entry's index is not one more than that of the entry in front: entries are missing, repeated "
        "or swapped.",
        "restore the original file; the position says where the order breaks",
    )  # fmt: skip
    CHAIN_REPEATED = CodeInfo(
        Area.CHAIN, E, "entry repeated",
        "A line holds the same entry as the line in front of it.",
        "restore the original file",
    )  # fmt: skip
    CHAIN_FORK = CodeInfo(
        Area.CHAIN, E, "fork inside the log",
        "Two entries continue the same entry. Two writers appended without a lock, or somebody joined two"
        " histories.",
        "keep the file as evidence; decide which branch the newest signed head commits to",
    )  # fmt: skip
    CHAIN_PREV = CodeInfo(
        Area.CHAIN, E, "entry does not follow",
        "An entry's prev is not the identity of the entry in front of it: one of the two was replaced or "
        "changed.",
        "restore the original file; the entry in front is the likelier one to have changed",
    )  # fmt: skip
    CLAIMED_TIME = CodeInfo(
        Area.CHAIN, W, "claimed time goes backwards",
        "An entry claims an earlier time than the entry in front. Order comes from the chain, so nothing "
        "follows from it but doubt about a clock.",
        "ask the signer about the clock of that machine",
    )  # fmt: skip

    # -- keys: verifier --------------------------------------------------------------------------------------
    KEY_UNKNOWN = CodeInfo(
        Area.KEYS, E, "key was never enrolled",
        "An entry names a key that no key entry of this log enrols, so its signature cannot count.",
        "this is a missing key, not a bad signature: enrol the key before it signs",
    )  # fmt: skip
    KEY_WEAK = CodeInfo(
        Area.KEYS, E, "key is not a proper point",
        "A public key is not the canonical encoding of a point of the prime-order subgroup.",
        "enrol another key",
    )  # fmt: skip
    KEY_ID_MISMATCH = CodeInfo(
        Area.KEYS, E, "key id is not the hash of the key",
        "A key entry's key_id is not the SHA-256 of its public_key.",
        "write the key entry again with the right id",
    )  # fmt: skip
    KEY_ENROLLED_TWICE = CodeInfo(
        Area.KEYS, E, "key enrolled twice",
        "A key entry enrols a key that the log enrolled before.",
        "revoke and enrol another key instead",
    )  # fmt: skip
    KEY_UNKNOWN_TARGET = CodeInfo(
        Area.KEYS, E, "key action without a target",
        "A rotation or revocation names a key, role or position that does not fit.",
        "name an enrolled key of the same role, and no position after the entry itself",
    )  # fmt: skip
    KEY_WRONG_ROLE = CodeInfo(
        Area.KEYS, E, "role may not sign this kind",
        "A key signed an entry of a kind that its role has no right to sign.",
        "sign it again with a key of the right role; see docs/format.md for who signs what",
    )  # fmt: skip
    KEY_NOT_YET = CodeInfo(
        Area.KEYS, E, "key used before it was enrolled",
        "An entry stands in front of the key entry that enrols its signer.",
        "enrol a key first, then sign with it",
    )  # fmt: skip
    KEY_RETIRED = CodeInfo(
        Area.KEYS, E, "key used after it was retired",
        "An entry stands behind the key entry that rotated or revoked its signer.",
        "sign with a key that is still valid; find out who still holds the old one",
    )  # fmt: skip
    KEY_DISOWNED = CodeInfo(
        Area.KEYS, W, "entries disowned by a revocation",
        "A compromise revocation takes back what the key signed from an earlier position on. Those "
        "entries stand in the log and count for nothing.",
        "measure again and seal with the new key",
    )  # fmt: skip

    THRESHOLD_NOT_MET = CodeInfo(
        Area.KEYS, E, "too few root keys behind a root action",
        "A key or threshold entry has fewer root keys behind it, its signer and each endorser counted once, than "
        "the threshold in force asks for. It does not count.",
        "collect endorsements first: `k3-ledger key … --propose FILE`, then `k3-ledger key endorse FILE`",
    )  # fmt: skip
    THRESHOLD_IMPOSSIBLE = CodeInfo(
        Area.KEYS, E, "threshold above the number of root keys",
        "A threshold entry asks for more root keys than count in the log at that place.",
        "enrol further root keys first",
    )  # fmt: skip
    ROOTS_TOO_FEW = CodeInfo(
        Area.KEYS, W, "fewer root keys left than the threshold",
        "A root key was retired and fewer are left than the threshold asks for, so no root action can follow: no key "
        "can be enrolled, rotated or revoked any more. The writer appends that only where it is asked for by name.",
        "rotate root keys instead of revoking them, or enrol another or lower the threshold first; `--last-root` "
        "closes the keys of a ledger on purpose",
    )  # fmt: skip
    ENDORSER_UNKNOWN = CodeInfo(
        Area.KEYS, E, "endorsed by a key that is no root there",
        "An endorsement names a key that is not an enrolled root key at that place, or was retired before.",
        "collect the endorsement of a root key that counts; `k3-ledger key ls` shows them",
    )  # fmt: skip
    ENDORSEMENT_REPEATED = CodeInfo(
        Area.KEYS, E, "root key counted twice",
        "A root action carries two endorsements by one key, or one by its own signer. A key counts once.",
        "leave the second one out",
    )  # fmt: skip
    ENDORSEMENT_SIGNATURE = CodeInfo(
        Area.KEYS, E, "endorsement of something else",
        "An endorsement is not a signature of the key it names over this action in this log: it was made for another "
        "action or another log, or was changed.",
        "show the proposal to that root key's holder and collect the endorsement again",
    )  # fmt: skip
    ENDORSEMENT_STALE = CodeInfo(
        Area.KEYS, E, "endorsement of an earlier state of the keys",
        "An endorsement was made before another root action was appended. It counts for that earlier state only, so "
        "that it cannot be used a second time.",
        "propose the action again and collect the endorsements again",
    )  # fmt: skip
    PROPOSAL_MALFORMED = CodeInfo(
        Area.KEYS, E, "not a proposal",
        "A file is not one that `k3-ledger key … --propose` wrote and holders of root keys endorse.",
        "have the proposal sent again", ExitCode.UNREADABLE,
    )  # fmt: skip
    PROPOSALS_DIFFER = CodeInfo(
        Area.KEYS, E, "files of different proposals",
        "Several files were given as copies of one proposal, and they propose different things.",
        "give the copies of one proposal only", ExitCode.USAGE,
    )  # fmt: skip
    REVOCATION_CIRCULAR = CodeInfo(
        Area.KEYS, E, "revocation undoes itself",
        "A compromise revocation takes back, directly or through other revocations, an enrolment or a revocation that "
        "it rests on itself.",
        "revoke from a later entry, or have root keys stand behind it whose enrolment it does not take back",
    )  # fmt: skip

    # -- checkpoint: verifier --------------------------------------------------------------------------------
    CHECKPOINT_SIGNATURE = CodeInfo(
        Area.CHECKPOINT, E, "signed head has no valid signature",
        "No log key that this ledger enrolled below the head's size, and had not retired by then, signed "
        "it.",
        "get the checkpoint from the operator again; if it is genuine, its key entry is missing from the "
        "log",
    )  # fmt: skip
    CHECKPOINT_DISOWNED = CodeInfo(
        Area.CHECKPOINT, W, "kept head by a key that was taken back",
        "A log key signed a head that is kept, and a later revocation took back what that key signed from before there "
        "on. The head vouches for nothing.",
        "rely on the newest head, which has to be by a key that stands",
    )  # fmt: skip
    UNCHECKPOINTED = CodeInfo(
        Area.CHECKPOINT, N, "entries past the newest signed head",
        "No signed head commits to these entries yet. They are chained and signed, but their removal "
        "would not show.",
        "ask the operator for a checkpoint, or require the step 'checkpoint' in the trust policy",
    )  # fmt: skip
    CHECKPOINT_UNREADABLE = CodeInfo(
        Area.CHECKPOINT, E, "signed head cannot be opened",
        "What stands in a signed head's place is no regular file, or the operating system refused to read it. That "
        "says nothing about the log.",
        "put the checkpoint itself there, or remove what stands in its place", ExitCode.UNREADABLE,
    )  # fmt: skip
    CHECKPOINT_BEHIND = CodeInfo(
        Area.CHECKPOINT, W, "older head than the one remembered",
        "The log extends the head that was remembered, yet the newest head beside it is older. The remembered one is "
        "kept.",
        "ask for the newest checkpoint: somebody serves an old one",
    )  # fmt: skip
    HEAD_TOO_SMALL = CodeInfo(
        Area.CHECKPOINT, E, "signed head too small",
        "The newest signed head covers fewer entries than the trust policy accepts.",
        "get a newer copy of the log",
    )  # fmt: skip
    MEMORY_UNREADABLE = CodeInfo(
        Area.CHECKPOINT, E, "remembered head cannot be read",
        "The file that remembers the last verified head is damaged. That says nothing about the log; "
        "trust on first use is not silently repeated.",
        "if you accept losing the protection against rollback once, delete the file on purpose and verify"
        " again",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    ROLLBACK = CodeInfo(
        Area.CHECKPOINT, E, "log is shorter than it was",
        "The log holds fewer entries than when it was last seen: it was rolled back or cut.",
        "keep both heads as evidence and ask the operator",
    )  # fmt: skip
    FORK = CodeInfo(
        Area.CHECKPOINT, E, "log's history was replaced",
        "The log does not extend the head that was seen before: two histories exist.",
        "keep both signed heads and a copy of the log as evidence: two heads of one size prove the fork alone",
    )  # fmt: skip
    HEAD_FROZEN = CodeInfo(
        Area.CHECKPOINT, E, "head has not moved for too long",
        "The newest head is older than the trust policy accepts, by the cosignatures on it or by the reader's own "
        "clock: somebody may be keeping newer ones back.",
        "ask the operator or another mirror for a newer head; keep the one that was shown as evidence",
    )  # fmt: skip

    # -- proof: verifier -------------------------------------------------------------------------------------
    NO_SUCH_ENTRY = CodeInfo(
        Area.STORE, E, "no such entry",
        "No entry has that index or identity.",
        "see `k3-ledger ls`", ExitCode.USAGE,
    )  # fmt: skip
    PROOF_DISOWNED = CodeInfo(
        Area.PROOF, E, "proved entry was taken back",
        "The proof carries a revocation that takes back the entry it is about: the entry counts for nothing.",
        "measure again and seal with a key that counts",
    )  # fmt: skip
    PROOF_INCOMPLETE = CodeInfo(
        Area.PROOF, E, "proof lacks an entry",
        "A proof file does not carry an entry that is needed to authenticate its subject.",
        "make the proof again from the ledger",
    )  # fmt: skip

    # -- artifact: verifier ----------------------------------------------------------------------------------
    ARTIFACT_MISSING = CodeInfo(
        Area.ARTIFACT, W, "artifact is not there",
        "An entry names an artifact that does not stand beside the ledger, so it could not be hashed. It "
        "is counted as not checked.",
        "get the artifact; require the step 'artifacts' in the trust policy if you cannot do without",
    )  # fmt: skip
    ARTIFACT_UNREADABLE = CodeInfo(
        Area.ARTIFACT, W, "artifact cannot be read",
        "What stands in an artifact's place is no regular file, or the operating system refused to read it. It is "
        "counted as not checked.",
        "put the artifact itself there; require the step 'artifacts' in the trust policy if you cannot do without",
    )  # fmt: skip
    ARTIFACT_MISMATCH = CodeInfo(
        Area.ARTIFACT, E, "artifact was changed",
        "A stored artifact does not hash to the digest that was sealed.",
        "restore the original artifact",
    )  # fmt: skip
    ARTIFACT_SIZE = CodeInfo(
        Area.ARTIFACT, E, "one digest, two sizes",
        "Two entries give the same digest different sizes; at least one of them is wrong.",
        "find out which writer recorded the wrong size",
    )  # fmt: skip

    # -- receipt: verifier -----------------------------------------------------------------------------------
    RECEIPT_CLOCK = CodeInfo(
        Area.RECEIPT, E, "repetitions overlap",
        "Repetitions of one series overlap in time or run backwards, so they do not come from one "
        "monotonic clock.",
        "measure again with a monotonic clock, one repetition after the other",
    )  # fmt: skip
    RECEIPT_COUNTS = CodeInfo(
        Area.RECEIPT, E, "counts contradict each other",
        "A receipt counts more of something than there was.",
        "measure again; the position names the field",
    )  # fmt: skip
    RECEIPT_IMPOSSIBLE = CodeInfo(
        Area.RECEIPT, E, "faster than any machine",
        "A repetition did more of its unit in its time than any machine could: more than a token a nanosecond, or more "
        "bytes or operations than a thousand of the largest installations together.",
        "check what was counted, in which unit, and which clock was read; docs/verify.md lists the bounds",
    )  # fmt: skip
    RECEIPT_PARITY = CodeInfo(
        Area.RECEIPT, E, "parity figures contradict each other",
        "A parity record's depths, means or maxima cannot come from one comparison.",
        "grade again; the position names the field",
    )  # fmt: skip
    RECEIPT_BUNDLE = CodeInfo(
        Area.RECEIPT, E, "receipt is not its bundle",
        "A receipt is a bundle and the digest of that bundle; here the rest of the body hashes to something else.",
        "seal the bundle again with `k3-ledger seal`",
    )  # fmt: skip
    ARTIFACT_NAME_TAKEN = CodeInfo(
        Area.RECEIPT, E, "two artifacts of one name",
        "A receipt names two artifacts alike, so which of them is meant by that name cannot be told.",
        "give each artifact of a receipt a name of its own and seal again",
    )  # fmt: skip
    IMPORT_ORIGINAL = CodeInfo(
        Area.RECEIPT, E, "import without its original",
        "The original that an import names is none of its artifacts, so nothing that was copied out of it can be held "
        "against it.",
        "import the foreign log again with `k3-ledger import polaris`",
    )  # fmt: skip
    IMPORT_DIFFERS = CodeInfo(
        Area.RECEIPT, E, "log differs from what was imported",
        "A foreign log holds another listing row, result or log text for an item that the ledger has imported from the "
        "same original: bytes of a published record were changed, on one side or the other.",
        "keep both: the ledger holds the earlier bytes as artifacts; ask who changed the log, and to seal what it says "
        "now, import it into another ledger",
    )  # fmt: skip
    REFERENCE_UNKNOWN = CodeInfo(
        Area.RECEIPT, E, "entry names an entry that is not there",
        "An entry refers to an earlier entry by an identity that no earlier entry has.",
        "name the identity that `k3-ledger show` prints",
    )  # fmt: skip

    REFERENCE_KIND = CodeInfo(
        Area.RECEIPT, E, "entry names an entry of the wrong kind",
        "An entry refers to one that it cannot be about: a round or a merge to something that is no receipt, a "
        "supersession to what says which keys count.",
        "name a receipt; what a key entry says is changed by another key entry only",
    )  # fmt: skip

    # -- policy: verifier ------------------------------------------------------------------------------------
    POLICY_EXISTS = CodeInfo(
        Area.POLICY, E, "trust policy stands there already",
        "A policy file, or a key in it, would be replaced by something else, and that was not asked for.",
        "look at it with `k3-ledger trust show`; say --replace if you mean it", ExitCode.USAGE,
    )  # fmt: skip
    POLICY_MALFORMED = CodeInfo(
        Area.POLICY, E, "trust policy cannot be read",
        "The trust policy is not TOML, has an unknown key, or a value of the wrong form.",
        "see docs/verify.md for its keys",
        ExitCode.USAGE,
    )  # fmt: skip
    ROOT_NOT_TRUSTED = CodeInfo(
        Area.POLICY, E, "log opened by another root key",
        "The genesis entry was not signed by the root key that the trust policy names.",
        "get the root key from its owner over another channel, or distrust this log",
    )  # fmt: skip
    ROOT_NOT_CHECKED = CodeInfo(
        Area.POLICY, E, "whose log this is cannot be told",
        "The genesis entry is missing, damaged, or its signature does not verify. What rests on it was not checked: "
        "who opened the log, which keys were enrolled, who signed its heads. This accuses nobody.",
        "mend what is wrong with line 1, which another finding names, or get a good copy; then verify again",
        ExitCode.NOT_CHECKED,
    )  # fmt: skip
    ORIGIN_NOT_TRUSTED = CodeInfo(
        Area.POLICY, E, "log has another name",
        "The log's origin is not the one that the trust policy names.",
        "check which log you meant to verify",
    )  # fmt: skip
    REQUIRED_NOT_CHECKED = CodeInfo(
        Area.POLICY, E, "required step was not checked",
        "The trust policy requires a step that could not be carried out in full.",
        "supply what was missing, or relax the policy knowingly",
        ExitCode.NOT_CHECKED,
    )  # fmt: skip

    # -- foreign logs --------------------------------------------------------------------------------------
    NOT_A_RUN_LOG = CodeInfo(
        Area.FOREIGN, E, "not a run log",
        "Nothing in the directory has the shape of an evaluation log: no run, no ledger line of one, no index.",
        "point the command at the directory that holds runs/ or ledger.jsonl", ExitCode.UNREADABLE,
    )  # fmt: skip
    FOREIGN_SHAPE = CodeInfo(
        Area.FOREIGN, E, "record of the wrong shape",
        "A record is JSON but not of the type its place asks for, or a field cannot be what its name says.",
        "see the position; nothing was taken from this record or field",
    )  # fmt: skip
    FOREIGN_NUMBER = CodeInfo(
        Area.FOREIGN, E, "number out of reason",
        "A number has more digits or a larger exponent than any measurement. It is kept as text and not compared.",
        "find out what wrote it",
    )  # fmt: skip
    FOREIGN_HASH = CodeInfo(
        Area.FOREIGN, E, "hash does not come out",
        "A digest in a foreign receipt is not the digest of what it claims to cover.",
        "the digest or what it covers was changed: nothing that hangs on it can be trusted",
    )  # fmt: skip
    FOREIGN_QUOTE = CodeInfo(
        Area.FOREIGN, E, "malformed quote",
        "A TDX quote does not have the structure of a version 4 quote.",
        "nothing that hangs on this quote was checked",
    )  # fmt: skip
    FOREIGN_QUOTE_PADDING = CodeInfo(
        Area.FOREIGN, W, "unsigned bytes after the quote",
        "The bytes behind a quote's signature data are not all zero. Nothing signs them.",
        "ignore them",
    )  # fmt: skip
    FOREIGN_SIGNATURE = CodeInfo(
        Area.FOREIGN, E, "foreign signature fails",
        "The Ed25519 signature of a foreign receipt does not verify over its attestation.",
        "the attestation, the signature or the key was changed",
    )  # fmt: skip
    FOREIGN_SIGNER_UNKNOWN = CodeInfo(
        Area.FOREIGN, W, "signer not authenticated",
        "A foreign receipt is signed by a key that it brings along. Anyone can make such a receipt.",
        "get the signer's key from elsewhere and give it with --public-key",
    )  # fmt: skip
    FOREIGN_SIGNER_OTHER = CodeInfo(
        Area.FOREIGN, E, "signed by another key",
        "A foreign receipt is signed by a key that is none of the keys given.",
        "check where the receipt and the key came from",
    )  # fmt: skip
    FOREIGN_SIGNED_ROUNDED = CodeInfo(
        Area.FOREIGN, W, "shown value is not the signed value",
        "Numbers are rounded to six places before they are signed, so the value shown can change unnoticed.",
        "read the rounded value; the rest of the digits is not vouched for",
    )  # fmt: skip
    FOREIGN_CHAIN_UNSIGNED = CodeInfo(
        Area.FOREIGN, W, "chain fields outside the signature",
        "The fields that should link foreign receipts are not among the signed bytes: order can be edited.",
        "do not take an order from them",
    )  # fmt: skip
    FOREIGN_CHAIN_UNLINKED = CodeInfo(
        Area.FOREIGN, W, "chain never linked",
        "A receipt calls itself the first of its chain in a log that holds several: no receipt commits to another.",
        "receipts can be removed or reordered without a trace",
    )  # fmt: skip
    FOREIGN_CHAIN_BROKEN = CodeInfo(
        Area.FOREIGN, E, "chain link leads nowhere",
        "A receipt names a previous receipt that is not in the log.",
        "a receipt was removed, or the link was edited",
    )  # fmt: skip
    FOREIGN_ATTESTATION_UNBOUND = CodeInfo(
        Area.FOREIGN, W, "attestation body not bound",
        "No digest of the attestation body, or of a part of it, is among what the quote covers: "
        "it can be edited and every hash still comes out.",
        "trust only the fields that the binding table calls bound or confirmed",
    )  # fmt: skip
    FOREIGN_NONCE_UNBOUND = CodeInfo(
        Area.FOREIGN, W, "nonce binds nothing",
        "The nonce is not the digest of commit, model digest and seed that this family documents; "
        "it only shows that the quote belongs to this receipt.",
        "the quote says nothing about the full commit or the model",
    )  # fmt: skip
    FOREIGN_RECEIPT_ID_COMMON = CodeInfo(
        Area.FOREIGN, W, "receipt id covers a constant",
        "Receipt ids are digests of the quote's first characters, which are the same in every receipt, "
        "and of the sealed output: they name an output, not a run.",
        "use the digest of the receipt's bytes as its name",
    )  # fmt: skip
    FOREIGN_ADDED_AFTER_SEALING = CodeInfo(
        Area.FOREIGN, W, "added after sealing",
        "A published result carries fields that are not in the result that was sealed.",
        "those fields are not evidence",
    )  # fmt: skip
    FOREIGN_RESULT_REWRITTEN = CodeInfo(
        Area.FOREIGN, W, "published result is not the sealed one",
        "The digest of the sealed result comes out for another record than the published result.",
        "compare the published result with the record that is bound",
    )  # fmt: skip
    FOREIGN_VERIFICATION_ASSERTED = CodeInfo(
        Area.FOREIGN, W, "document vouches for itself",
        "A receipt carries booleans that say it was verified. Whoever edits the receipt edits them too.",
        "ignore them and verify the quote",
    )  # fmt: skip
    FOREIGN_VERIFIER_REFUSES = CodeInfo(
        Area.FOREIGN, W, "refused by its own verifier",
        "The timestamp has an offset where this family's own verifier reads a trailing Z only: it accepts no such "
        "receipt.",
        "a gate that uses that verifier lets nothing through, or is switched off",
    )  # fmt: skip
    FOREIGN_ENCLAVE_FAILED = CodeInfo(
        Area.FOREIGN, E, "sealed output is no verdict",
        "What the enclave printed, and sealed, holds no JSON object.",
        "the receipt seals a failure: it vouches for no figure",
    )  # fmt: skip
    FOREIGN_SEALED_VERDICT = CodeInfo(
        Area.FOREIGN, E, "sealed verdict contradicts the published one",
        "The output that the enclave sealed says something else than the record that was published.",
        "the published verdict is not what the receipt vouches for",
    )  # fmt: skip
    FOREIGN_SEALED_BARS = CodeInfo(
        Area.FOREIGN, E, "sealed bars are not the published ones",
        "The enclave judged by other bars than those that the published result states.",
        "the receipt vouches for a gate that was not the one published",
    )  # fmt: skip
    FOREIGN_CONTRADICTION = CodeInfo(
        Area.FOREIGN, E, "records contradict one another",
        "Two records of one run give different values for the same field.",
        "at most one of them is right; prefer the one that the binding table calls bound",
    )  # fmt: skip
    FOREIGN_COMMIT = CodeInfo(
        Area.FOREIGN, E, "commits differ",
        "A short commit in one record is not a prefix of the commit in another: it names other code.",
        "the figures may belong to either; treat the run as unattributed",
    )  # fmt: skip
    FOREIGN_DERIVED = CodeInfo(
        Area.FOREIGN, E, "derived figure does not follow",
        "A figure cannot be had from the figures beside it, not even allowing for their rounding.",
        "recompute it, and ask which of the figures was edited",
    )  # fmt: skip
    FOREIGN_PRECISION_LOST = CodeInfo(
        Area.FOREIGN, W, "precision lost between copies",
        "One record holds a rounded copy of what another holds in full.",
        "use the fuller value, and never compare the two at a threshold",
    )  # fmt: skip
    FOREIGN_PRECISION_FEIGNED = CodeInfo(
        Area.FOREIGN, W, "precision feigned",
        "A rounded value is printed with more digits than it has, and compared with an exact one.",
        "compare values of equal precision",
    )  # fmt: skip
    FOREIGN_BLANK_COPY = CodeInfo(
        Area.FOREIGN, W, "left blank in one record",
        "One record leaves blank what another record of the same run states.",
        "the value rests on a single record",
    )  # fmt: skip
    FOREIGN_FIELD_ABSENT = CodeInfo(
        Area.FOREIGN, W, "row lacks a field",
        "A row lacks a field that nearly all rows beside it carry.",
        "ask why this row is different",
    )  # fmt: skip
    FOREIGN_UNLISTED = CodeInfo(
        Area.FOREIGN, E, "run not listed",
        "A run has its own folder and is missing from the ledger or the index.",
        "a listing that can leave runs out cannot show that nothing was left out",
    )  # fmt: skip
    FOREIGN_ROW_WITHOUT_RUN = CodeInfo(
        Area.FOREIGN, E, "listed run is not there",
        "A ledger line, an index row or a log names a run that has no folder.",
        "its records were removed or never published",
    )  # fmt: skip
    FOREIGN_ROW_REPEATED = CodeInfo(
        Area.FOREIGN, E, "run listed twice",
        "A ledger or an index lists one run more than once.",
        "see both rows",
    )  # fmt: skip
    FOREIGN_FILE_MISSING = CodeInfo(
        Area.FOREIGN, W, "file missing",
        "A run lacks a file that most runs of this log have.",
        "what that file would show could not be checked for this run",
    )  # fmt: skip
    FOREIGN_INDEX_ORDER = CodeInfo(
        Area.FOREIGN, E, "index and ledger disagree on the order",
        "The index lists the runs neither in the ledger's order nor in its reverse.",
        "one of the two was edited",
    )  # fmt: skip
    FOREIGN_TIME_ORDER = CodeInfo(
        Area.FOREIGN, E, "ledger out of time order",
        "A ledger line claims an earlier time than the line before it.",
        "a line was inserted, moved or given another time",
    )  # fmt: skip
    FOREIGN_TIME_COLLATERAL = CodeInfo(
        Area.FOREIGN, E, "time outside the collateral",
        "A receipt's timestamp lies outside the period for which its own collateral was issued.",
        "the timestamp or the collateral belongs to another run",
    )  # fmt: skip
    FOREIGN_EDITED_IN_PLACE = CodeInfo(
        Area.FOREIGN, E, "record edited in place",
        "A row of a log that is said to be append-only carries something that was only known after it was written.",
        "rows of this log can change: keep your own copy",
    )  # fmt: skip
    FOREIGN_SUPERSEDED_BY_OLDER = CodeInfo(
        Area.FOREIGN, E, "superseded by an older run",
        "A row is said to be superseded by a run that was measured before it.",
        "nothing was measured again: an earlier result was put back",
    )  # fmt: skip
    FOREIGN_TWO_MEANINGS = CodeInfo(
        Area.FOREIGN, W, "one field, two metrics",
        "One field name stands for different quantities in different records of the log.",
        "never compare or plot the field without the field that tells which",
    )  # fmt: skip
    FOREIGN_TIER_BASIS = CodeInfo(
        Area.FOREIGN, E, "tier basis contradicts the credit",
        "The record says that the tier was anchored to the reference, yet the credit is not the anchored figure.",
        "another term bound: see the rule that was in force",
    )  # fmt: skip
    FOREIGN_GUARD_UNMEASURED = CodeInfo(
        Area.FOREIGN, W, "guard passed without a measurement",
        "A guard is recorded as passed although neither its measurement nor its baseline is there.",
        "read it as not checked",
    )  # fmt: skip
    FOREIGN_FIELD_MISFILLED = CodeInfo(
        Area.FOREIGN, W, "field filled with something else",
        "A field holds a value that belongs to another field.",
        "do not use it",
    )  # fmt: skip
    FOREIGN_PROVENANCE_EMPTY = CodeInfo(
        Area.FOREIGN, W, "provenance left empty",
        "A field that should say what ran, on what, is empty.",
        "the run cannot be repeated from this record",
    )  # fmt: skip
    FOREIGN_CLOCKS_UNPINNED = CodeInfo(
        Area.FOREIGN, W, "clocks not pinned",
        "The receipt records that GPU clocks were not pinned.",
        "compare speeds only with runs of the same session",
    )  # fmt: skip
    FOREIGN_CLOCK_UNPUBLISHED = CodeInfo(
        Area.FOREIGN, W, "clock reading not published",
        "The record says that wall-clock time bounded the speed, and no record holds the reading.",
        "the bound cannot be checked: read the speed as self-reported",
    )  # fmt: skip
    FOREIGN_CLOCK_WRONG_METRIC = CodeInfo(
        Area.FOREIGN, W, "clock bound of another metric",
        "A prefill speed is said to be bounded by wall-clock time in a log whose clock lines time decode only.",
        "read the speed as self-reported",
    )  # fmt: skip
    FOREIGN_MISSING_FOR_RESCORE = CodeInfo(
        Area.FOREIGN, W, "missing for a re-score",
        "A figure that a tier rule needs is in no record of the run.",
        "it has to come from a history table, and the verdict says so",
    )  # fmt: skip
    FOREIGN_SAME_COMMIT = CodeInfo(
        Area.FOREIGN, W, "commit measured more than once",
        "Several runs of the log are of the same commit.",
        "see whether their figures and labels agree",
    )  # fmt: skip
    FOREIGN_SAME_RECEIPT = CodeInfo(
        Area.FOREIGN, E, "receipts share an identity",
        "Several receipts have the same id, quote or nonce, so one sealed output stands for several runs.",
        "at most one of them was sealed for its own run",
    )  # fmt: skip
    FOREIGN_BUILD_DIFFERS = CodeInfo(
        Area.FOREIGN, W, "one commit, several builds",
        "Runs of one commit have different build digests.",
        "the build is not reproducible, or a build directory was reused",
    )  # fmt: skip
    FOREIGN_BUILD_SHARED = CodeInfo(
        Area.FOREIGN, W, "several commits, one build",
        "Runs of different commits have the same build digest: at least one of them did not run its own code.",
        "see whether the commits differ in what is built",
    )  # fmt: skip
    FOREIGN_WEIGHTS_CHANGED = CodeInfo(
        Area.FOREIGN, W, "weights fingerprint changed",
        "The fingerprint of the weights moved while the recorded model digest stayed the same.",
        "the digest was not recomputed, or the weights were replaced",
    )  # fmt: skip
    FOREIGN_EVIDENCE_REPEATED = CodeInfo(
        Area.FOREIGN, N, "same evidence in several runs",
        "Runs of different commits carry digit-identical parity figures.",
        "right if the change touched no arithmetic; otherwise the figures were copied",
    )  # fmt: skip
    FOREIGN_BOUND_DIGEST = CodeInfo(
        Area.FOREIGN, N, "pinned digest changed",
        "The digest of the enclave's image takes several values over the log. It cannot be recomputed, only pinned.",
        "ask the log's operator for the image of each value",
    )  # fmt: skip
    FOREIGN_ENCLAVE_CHANGED = CodeInfo(
        Area.FOREIGN, W, "enclave measured differently",
        "A quote's measurements are not those of the quote before: other firmware, another image, or an edited quote.",
        "pin the measurements that you have accepted; who made the quote is not checked here",
    )  # fmt: skip
    FOREIGN_SCORER_COMMIT = CodeInfo(
        Area.FOREIGN, W, "scorer commit cannot be right",
        "The commit recorded for the scoring scripts contradicts other runs: it goes back, differs within one round, "
        "or names a scorer whose other records have other fields.",
        "do not take the rule in force from this field",
    )  # fmt: skip
    FOREIGN_LOG_SHARED = CodeInfo(
        Area.FOREIGN, N, "one log text for several runs",
        "Several runs carry byte-identical log text, that of their whole round.",
        "count such logs once",
    )  # fmt: skip
    FOREIGN_LOG_SILENT = CodeInfo(
        Area.FOREIGN, E, "log does not know the run",
        "The log text in a run's folder does not say that this run was published.",
        "the log belongs to another run",
    )  # fmt: skip
    FOREIGN_LOG_COUNT = CodeInfo(
        Area.FOREIGN, E, "log's own count is wrong",
        "A round log's closing line counts another number of published runs than the log shows.",
        "lines were removed or added",
    )  # fmt: skip
    FOREIGN_FAILURE_UNRECORDED = CodeInfo(
        Area.FOREIGN, W, "failure without a record",
        "A log shows a measurement that failed or was refused, and no ledger line says so.",
        "a ledger of successes shows less than was tried",
    )  # fmt: skip
    FOREIGN_REFUSED_THEN_PUBLISHED = CodeInfo(
        Area.FOREIGN, W, "refused in one log, published in another",
        "A commit was refused by the harness in one round and published as a run in another.",
        "see what was changed in between: a threshold, the box or nothing",
    )  # fmt: skip
    FOREIGN_OVERRIDE_UNRECORDED = CodeInfo(
        Area.FOREIGN, W, "override not in the record",
        "A log shows that the harness ran with overridden settings; the receipt and the result do not.",
        "the figure cannot be repeated from its record",
    )  # fmt: skip
    FOREIGN_REGRESSION_PUBLISHED = CodeInfo(
        Area.FOREIGN, E, "regression in the log, pass in the record",
        "The log calls a run an accuracy regression that blocks it; the published record passes it with a tier.",
        "the published tier is not the outcome of the round",
    )  # fmt: skip
    FOREIGN_MERGED_WITHOUT_GAIN = CodeInfo(
        Area.FOREIGN, E, "merged as a gain that it is not",
        "The log merges a run as a verified gain although its figure does not beat the frontier it was measured "
        "against.",
        "see the round's log",
    )  # fmt: skip
    FOREIGN_TIER = CodeInfo(
        Area.FOREIGN, E, "tier in the log contradicts the record",
        "The log says that another tier was applied to a run than the one its record publishes.",
        "one of the two was derived from something else",
    )  # fmt: skip
    FOREIGN_TIER_HISTORY = CodeInfo(
        Area.FOREIGN, E, "earlier tier contradicts the ledger",
        "The log removes a tier from a change that is not the tier the ledger had published for it.",
        "a tier was changed outside the ledger",
    )  # fmt: skip
    FOREIGN_PIN_GAP = CodeInfo(
        Area.FOREIGN, W, "pin moved unseen",
        "A frontier pin has another value than the last log left it with, and no log shows the change.",
        "ask what moved it: a hand edit leaves no trace here",
    )  # fmt: skip

    # -- verdicts ------------------------------------------------------------------------------------------
    VERDICT_MISMATCH = CodeInfo(
        Area.VERDICTS, E, "verdict does not follow",
        "The rule that a verdict names, applied to the run and the pins it names, gives something else.",
        "do not trust this verdict; `k3-ledger rescore` derives the right one",
    )  # fmt: skip
    VERDICT_PIN = CodeInfo(
        Area.VERDICTS, E, "verdict rests on a pin that is not there",
        "A pin that a verdict took from a receipt, a pin entry, the rule or the history is not what stands there.",
        "do not trust this verdict; `k3-ledger rescore` shows the pins that are there",
    )  # fmt: skip
    JUDGEMENT_UNREADABLE = CodeInfo(
        Area.VERDICTS, E, "pin or rule entry that is none",
        "An entry that verdicts rest on holds no pin (zero, negative, an unknown slot) or no complete rule.",
        "do not trust what was judged after it; append a right one",
    )  # fmt: skip
    JUDGEMENT_DISOWNED = CodeInfo(
        Area.VERDICTS, W, "judgement on an entry that was taken back",
        "A verdict or a pin rests on an entry that a later revocation took back. Who judged did nothing wrong; what "
        "was judged counts for nothing.",
        "measure and judge again; until then rely on no figure that rests on the entry",
    )  # fmt: skip
    VERDICT_UNKNOWN_RULE = CodeInfo(
        Area.VERDICTS, W, "verdict by an unknown rule",
        "No rule of that digest is registered or published in the ledger, so the verdict was not derived again.",
        "publish the rule as a `rule` entry",
    )  # fmt: skip
    RULE_NAME_TAKEN = CodeInfo(
        Area.VERDICTS, E, "another rule under a known name",
        "A rule entry has the name of a rule that says something else: a shipped one, or one published before it. "
        "Whoever reads the name in a verdict would take it for the other.",
        "publish the rule under a name of its own; a rule never changes under its name",
    )  # fmt: skip
    VERDICT_UNTRACED_PIN = CodeInfo(
        Area.VERDICTS, N, "verdict rests on a pin from a file",
        "The verdict follows, but a pin in it was taken from a file that the ledger does not hold.",
        "append the pin as a `pin` entry and judge again",
    )  # fmt: skip

    # -- claims --------------------------------------------------------------------------------------------
    CLAIM_CONTRADICTED = CodeInfo(
        Area.CLAIMS, E, "claim contradicted",
        "The receipts say something else than what was published, or the run it rests on was refused.",
        "correct what was published; the contradicting evidence is named",
    )  # fmt: skip
    CLAIM_AMBIGUOUS = CodeInfo(
        Area.CLAIMS, E, "claim ambiguous",
        "Several receipts could be meant, or those that could disagree with each other.",
        "name the receipt that is meant",
    )  # fmt: skip
    CLAIM_NO_RECEIPT = CodeInfo(
        Area.CLAIMS, E, "claim without a receipt",
        "Nothing in the ledger holds the published value.",
        "seal the measurement it was taken from, or withdraw it",
    )  # fmt: skip
    CLAIM_STALE = CodeInfo(
        Area.CLAIMS, E, "claim stale",
        "The value was right once; newer evidence on the same track says otherwise.",
        "publish the newer value, or say when the old one held",
    )  # fmt: skip
    CLAIM_UNSEALED = CodeInfo(
        Area.CLAIMS, W, "claim rests on an unsealed figure",
        "Only a log line, a pin or the shipped history holds the value, or one side of a ratio; no receipt does.",
        "measure again and seal it",
    )  # fmt: skip

    # -- runs ----------------------------------------------------------------------------------------------
    RUN_ENGINE_FAILED = CodeInfo(
        Area.RUN, E, "engine ended or refused",
        "The engine process could not be started, ended, or answered a request with an error.",
        "the bundle keeps the end of its standard error",
    )  # fmt: skip
    RUN_PROTOCOL = CodeInfo(
        Area.RUN, E, "engine broke the protocol",
        "The engine's answer is not one JSON object with the fields that the request asks for.",
        "see docs/measurement.md for the protocol",
    )  # fmt: skip
    RUN_TIMEOUT = CodeInfo(
        Area.RUN, E, "engine gave no answer in time",
        "A request was not answered within the time that the run allows.",
        "raise --timeout, or find out what the engine waits for",
    )  # fmt: skip
    RUN_FLAG = CodeInfo(
        Area.RUN, E, "flag cannot be resolved",
        "A flag does not exist, or does not take the value it was given.",
        "`k3-ledger run --help` lists the flags",
        ExitCode.USAGE,
    )  # fmt: skip
    RUN_SELF_REPORT = CodeInfo(
        Area.RUN, E, "engine's own time contradicts the clock",
        "The time that the engine reports for a request does not lie just inside what the controller's "
        "clock saw.",
        "report the time of the work itself, on a monotonic clock",
    )  # fmt: skip
    RUN_MARGINAL = CodeInfo(
        Area.RUN, E, "extra tokens cost something else",
        "The longer run does not take longer by what the engine says the extra tokens cost: work was "
        "skipped, repeated or hidden.",
        "look at the raw times in the bundle",
    )  # fmt: skip
    RUN_MARGIN = CodeInfo(
        Area.RUN, E, "signal does not stand out from jitter",
        "The extra tokens take too little time, compared with the spread of repetitions, to bound a "
        "claim.",
        "measure on a quieter machine or with more tokens",
    )  # fmt: skip
    RUN_LEFT_OVER = CodeInfo(
        Area.RUN, E, "work went on after the answer",
        "The engine answered before its work was done: the request behind it began by finishing it.",
        "wait for the device before answering",
    )  # fmt: skip
    RUN_OUTPUT = CodeInfo(
        Area.RUN, E, "timed run put out something wrong",
        "A timed run put out another number of tokens, or a token that the reference would not have "
        "chosen.",
        "the answer that is timed must be the answer",
    )  # fmt: skip
    RUN_FOREIGN_FILE = CodeInfo(
        Area.RUN, E, "result file cannot be taken",
        "Another tool's result file is not of the shape that is known, contradicts itself, or leaves open "
        "what it counts.",
        "write it again with the tool's JSON output, or say with an option what it does not hold",
        ExitCode.UNREADABLE,
    )  # fmt: skip
    RUN_DEGENERATE = CodeInfo(
        Area.RUN, E, "answers cannot tell work from none",
        "Nearly every token of the timed runs is the same one, so an engine that does nothing would have "
        "passed.",
        "use a model whose answers depend on its input",
    )  # fmt: skip
    RUN_INTERPRETED = CodeInfo(
        Area.RUN, E, "kernels were interpreted",
        "By the engine's own account its kernels ran in an interpreter on the CPU, which rounds otherwise than "
        "compiled ones do and whose speed says nothing.",
        "run compiled kernels, or none: backend naive",
    )  # fmt: skip
    RUN_MODEL_CHANGED = CodeInfo(
        Area.RUN, E, "model file changed during the run",
        "The model file was written to or replaced between the digest that is recorded and the end of the run.",
        "measure again with the file out of the engine's reach",
    )  # fmt: skip
    RUN_NO_QUOTE = CodeInfo(
        Area.RUN, W, "no quote from the machine",
        "The machine has a trusted security module and gave no quote that could be used. The receipt says that it is "
        "not attested.",
        "look at the guest's quote generation service, and measure again if the receipt has to be attested",
    )  # fmt: skip
    RUN_INPUTS_REPEATED = CodeInfo(
        Area.RUN, E, "an input was timed twice",
        "Two timed requests had the same prompt, so the second could have been answered from memory.",
        "use a vocabulary or prompt long enough for fresh prompts",
    )  # fmt: skip

    # -- attestations --------------------------------------------------------------------------------------
    QUOTE_MALFORMED = CodeInfo(
        Area.ATTESTATION, E, "malformed quote",
        "A quote does not have the structure of a version 4 quote of a trust domain.",
        "nothing that hangs on this quote was checked",
    )  # fmt: skip
    QUOTE_CHAIN = CodeInfo(
        Area.ATTESTATION, E, "quote's certificates",
        "The certificates of a quote do not lead, link by link, to a root that the auditor holds.",
        "compare the root in the trust directory with the one that Intel publishes; if it is the same, the "
        "quote is not genuine",
    )  # fmt: skip
    QUOTE_REVOKED = CodeInfo(
        Area.ATTESTATION, E, "revoked certificate",
        "A certificate that a quote stands on is in its issuer's revocation list.",
        "do not trust anything that this platform attests",
    )  # fmt: skip
    QUOTE_SIGNATURE = CodeInfo(
        Area.ATTESTATION, E, "quote's signature",
        "A signature inside a quote does not verify, or the quoting enclave vouches for another key.",
        "the quote was changed after it was made, or put together from several",
    )  # fmt: skip
    QUOTE_COLLATERAL = CodeInfo(
        Area.ATTESTATION, E, "quote's collateral",
        "TCB info, QE identity or a revocation list is malformed, about something else, or not signed by whom "
        "the auditor trusts for it.",
        "fetch the collateral again for the platform of this quote; if it came with the receipt, it was "
        "changed",
    )  # fmt: skip
    QUOTE_EXPIRED = CodeInfo(
        Area.ATTESTATION, E, "outside a period of validity",
        "At the chosen time a certificate, a revocation list or the collateral was not valid yet or not valid "
        "any more.",
        "choose the time that matters: `receipt` asks whether it was valid when it was made, `now` whether it "
        "still is",
    )  # fmt: skip
    QUOTE_ENCLAVE = CodeInfo(
        Area.ATTESTATION, E, "not Intel's enclave",
        "The quoting enclave or the TDX module is not one that Intel's signed collateral describes.",
        "nothing that this platform attests can be relied on",
    )  # fmt: skip
    QUOTE_TCB = CodeInfo(
        Area.ATTESTATION, E, "TCB status not acceptable",
        "The platform reaches no TCB level that Intel knows, or one whose status or advisories the policy "
        "does not accept.",
        "update the platform's firmware, or accept the status in the policy with open eyes",
    )  # fmt: skip
    QUOTE_DEBUG = CodeInfo(
        Area.ATTESTATION, E, "debuggable trust domain",
        "The trust domain was started with debugging allowed: whoever runs the machine can read and change "
        "everything in it.",
        "have the workload run again without debugging",
    )  # fmt: skip
    QUOTE_PLATFORM = CodeInfo(
        Area.ATTESTATION, E, "platform property not allowed",
        "The platform has a property (packages can be added, keys are cached, SMT is on) that the policy does "
        "not allow by name.",
        "allow it by name if that is what you accept: most cloud platforms are dynamic and have SMT on",
    )  # fmt: skip
    QUOTE_MEASUREMENT = CodeInfo(
        Area.ATTESTATION, E, "measurement not pinned",
        "A register of the trust domain has a value that is not among those that the policy pins.",
        "another image, kernel or command line ran; pin the new value once you know what it stands for",
    )  # fmt: skip
    QUOTE_UNPINNED = CodeInfo(
        Area.ATTESTATION, W, "no measurement pinned",
        "The policy pins no register, so a genuine quote only shows that some program ran in some trust domain.",
        "pin the registers of the image that you know: anyone with such a machine gets genuine quotes",
    )  # fmt: skip
    QUOTE_BINDING = CodeInfo(
        Area.ATTESTATION, E, "quote of something else",
        "The report data of a quote are not those of the receipt that carries it.",
        "the quote belongs to another run, or the receipt was changed after it was made",
    )  # fmt: skip
    QUOTE_CHECKERS_DISAGREE = CodeInfo(
        Area.ATTESTATION, E, "two checkers disagree",
        "Two programs that were written apart come to different verdicts about the same quote at the same "
        "time.",
        "report it: one of the two is wrong, and until it is known which, the quote counts as not genuine",
    )  # fmt: skip
    QUOTE_ONE_CHECKER = CodeInfo(
        Area.ATTESTATION, W, "only one checker",
        "The second checker is not installed, so the quote was looked at by one program only and is not "
        "called verified.",
        "pip install 'k3-ledger[tee]'",
    )  # fmt: skip
    QUOTE_NO_ANCHOR = CodeInfo(
        Area.ATTESTATION, W, "no certificate to check with",
        "The trust directory lacks a certificate that the check needs: Intel's SGX root, or the TCB signing "
        "certificate that signs TCB info and QE identity.",
        "put Intel's root and TCB signing certificates as .pem files into a folder of your own and name it as "
        "the trust directory; they never come from the receipt",
    )  # fmt: skip
    QUOTE_NO_COLLATERAL = CodeInfo(
        Area.ATTESTATION, W, "no collateral",
        "A quote comes without TCB info, QE identity and revocation lists, so only its signatures were looked "
        "at.",
        "have the receipt made with collateral: what a platform's state was can only be said with Intel's "
        "word of that time",
    )  # fmt: skip
    QUOTE_MALLEABLE = CodeInfo(
        Area.ATTESTATION, W, "bytes that nothing signs",
        "Bytes stand behind a quote's signature data. They can be changed without any check failing, so one "
        "quote has many spellings.",
        "never identify a quote by the digest of all its bytes",
    )  # fmt: skip
    QUOTE_ADVISORIES = CodeInfo(
        Area.ATTESTATION, W, "security advisories apply",
        "Intel names security advisories that apply to the platform's TCB level.",
        "read them; refuse single ones by name in the policy",
    )  # fmt: skip
    QUOTE_TIME_UNBOUND = CodeInfo(
        Area.ATTESTATION, W, "time that nothing binds",
        "The time at which a quote was judged is the receipt's own word, and the quote does not cover it.",
        "choose a time yourself, or take the periods of the collateral as the bounds",
    )  # fmt: skip
    ATTESTATION_MISSING = CodeInfo(
        Area.ATTESTATION, E, "attestation without evidence",
        "A receipt says that it is attested and does not carry what shows it.",
        "the quote was left out when the bundle was made, or taken away",
    )  # fmt: skip
    ATTESTATION_REPEATED = CodeInfo(
        Area.ATTESTATION, E, "evidence named twice",
        "A receipt names two artifacts as the same piece of evidence, so two verifiers could look at different ones.",
        "have the bundle made again with one quote, one collateral and one answer of an attestation service",
    )  # fmt: skip
    ATTESTATION_UNREADABLE = CodeInfo(
        Area.ATTESTATION, W, "evidence cannot be read",
        "The artifact that holds an attestation is not there or cannot be read, so the attestation was not "
        "checked.",
        "restore the artifact from a copy of the ledger",
    )  # fmt: skip
    ATTESTATION_KIND = CodeInfo(
        Area.ATTESTATION, E, "kind of attestation not accepted",
        "A receipt is attested in another way than the trust policy accepts, or not at all.",
        "trust the receipt for what it is, or accept the kind in the policy",
    )  # fmt: skip
    TOKEN_MALFORMED = CodeInfo(
        Area.ATTESTATION, E, "malformed attestation token",
        "An NVIDIA attestation token is not a token of the form that is understood: ES384, three parts, JSON.",
        "nothing that hangs on this token was checked",
    )  # fmt: skip
    TOKEN_SIGNATURE = CodeInfo(
        Area.ATTESTATION, E, "token's signature",
        "A token's signature does not verify under the key that the auditor holds for it, or a device's token "
        "is not the one that the overall token names.",
        "the token was changed, or was made by somebody else",
    )  # fmt: skip
    TOKEN_EXPIRED = CodeInfo(
        Area.ATTESTATION, E, "token outside its period",
        "At the chosen time a token was not valid yet or not valid any more.",
        "tokens live for about an hour: judge them at receipt time",
    )  # fmt: skip
    TOKEN_REFUSED = CodeInfo(
        Area.ATTESTATION, E, "token reports a failure",
        "The attestation service says that the device's evidence did not hold.",
        "do not trust the device that this token is about",
    )  # fmt: skip
    TOKEN_BINDING = CodeInfo(
        Area.ATTESTATION, E, "token of something else",
        "A token's nonce is not the digest of the receipt that carries it.",
        "the token belongs to another run",
    )  # fmt: skip
    TOKEN_NO_KEY = CodeInfo(
        Area.ATTESTATION, W, "no key to check a token with",
        "The trust directory holds no key of the name that a token gives, so its signature was not checked.",
        "put the attestation service's key set into the trust directory as nvidia-jwks.json",
    )  # fmt: skip

    @property
    def id(self) -> str:
        """Stable public spelling."""
        return "K3L-" + self.name.replace("_", "-")

    @property
    def info(self) -> CodeInfo:
        """The registry row."""
        return self.value


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a verifier, an auditor or a writer reports.

    Attributes:
        code: the registry row; carries severity and the generic hint.
        message: this occurrence, in one lower-case sentence without a final full stop.
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
