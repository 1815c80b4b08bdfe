"""Rows of the registry: signed heads and who cosigns them."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import ExitCode, Severity

E, W, N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# fmt: off
ROWS: Final = {
    # -- checkpoint ------------------------------------------------------------------------------------------
    "NOTE_MALFORMED": CodeInfo(
        Area.CHECKPOINT, E, "not a signed note",
        "The bytes are not a C2SP signed note: text, a blank line, and signature lines.",
        "obtain the note again; a file of NUL bytes is what a power failure leaves of one",
    ),
    "NOTE_SIGNATURE": CodeInfo(
        Area.CHECKPOINT, E, "bad signature on a note",
        "A key that is known signed another text, or the text or the signature was changed.",
        "obtain the note again from its author",
    ),
    "NOTE_UNSIGNED": CodeInfo(
        Area.CHECKPOINT, E, "note signed by no known key",
        "None of the note's signatures is by a key that was asked for.",
        "check that the right keys are trusted",
    ),
    "CHECKPOINT_MALFORMED": CodeInfo(
        Area.CHECKPOINT, E, "not a checkpoint",
        "The note's text is not origin, tree size and root hash, each in its one accepted spelling.",
        "obtain the checkpoint again",
    ),
    "CHECKPOINT_ORIGIN": CodeInfo(
        Area.CHECKPOINT, E, "checkpoint of another log",
        "The checkpoint's origin line is not this log's.",
        "obtain the checkpoint of this log",
    ),
    "CHECKPOINT_AHEAD": CodeInfo(
        Area.CHECKPOINT, E, "entries are missing",
        "The checkpoint commits to more entries than are there: the end of the ledger was cut off.",
        "restore the whole ledger; entries that a signed head commits to have existed",
    ),
    "CHECKPOINT_ROOT": CodeInfo(
        Area.CHECKPOINT, E, "checkpoint commits to other entries",
        "The Merkle root of the entries is not the one that was signed: an entry or a signature was changed.",
        "restore the ledger from a copy that verifies",
    ),
    "UNWITNESSED": CodeInfo(
        Area.CHECKPOINT, W, "entries that no quorum has seen",
        "Signed heads of the log commit to more entries than any head with the quorum that the trust policy asks for. "
        "The entries beyond it may have been made for you alone.",
        "wait until witnesses have cosigned a newer head, or require the step 'witnesses' in the trust policy",
    ),
    "CHECKPOINT_MISNAMED": CodeInfo(
        Area.CHECKPOINT, W, "kept head under another one's name",
        "A file in checkpoints/ is named after one tree size and holds a signed head of another. The head of the size "
        "that the name says may have been taken away.",
        "put the right head back from a copy, or rename the file after the size in its second line",
    ),
    "CHECKPOINT_SIGNATURE": CodeInfo(
        Area.CHECKPOINT, E, "signed head has no valid signature",
        "No log key that this ledger enrolled below the head's size, and had not retired by then, signed "
        "it.",
        "get the checkpoint from the operator again; if it is genuine, its key entry is missing from the "
        "log",
    ),
    "CHECKPOINT_DISOWNED": CodeInfo(
        Area.CHECKPOINT, W, "kept head by a key that was taken back",
        "A log key signed a head that is kept, and a later revocation took back what that key signed from before there "
        "on. The head vouches for nothing.",
        "rely on the newest head, which has to be by a key that stands",
    ),
    "UNCHECKPOINTED": CodeInfo(
        Area.CHECKPOINT, N, "entries that no signed head commits to",
        "No signed head commits to these entries, or to any. They are chained and signed, but that the last of them "
        "or more behind them were removed would not show.",
        "ask the operator for a checkpoint, or require the step 'checkpoint' in the trust policy",
    ),
    "CHECKPOINT_UNREADABLE": CodeInfo(
        Area.CHECKPOINT, E, "signed head cannot be opened",
        "What stands in a signed head's place is no regular file, or the operating system refused to read it. That "
        "says nothing about the log.",
        "put the checkpoint itself there, or remove what stands in its place", ExitCode.UNREADABLE,
    ),
    "CHECKPOINT_BEHIND": CodeInfo(
        Area.CHECKPOINT, W, "older head than the one remembered",
        "The log extends the head that was remembered, yet the newest head beside it is older. The remembered one is "
        "kept.",
        "ask for the newest checkpoint: somebody serves an old one",
    ),
    "HEAD_TOO_SMALL": CodeInfo(
        Area.CHECKPOINT, E, "signed head too small",
        "The newest signed head covers fewer entries than the trust policy accepts.",
        "get a newer copy of the log",
    ),
    "MEMORY_UNREADABLE": CodeInfo(
        Area.CHECKPOINT, E, "remembered head cannot be read",
        "The file that remembers the last verified head is damaged. That says nothing about the log; "
        "trust on first use is not silently repeated.",
        "restore it from a copy; if it is the file of --memory and you accept losing the protection against rollback "
        "once, put it aside: verify again with --forget",
        ExitCode.UNREADABLE,
    ),
    "MEMORY_FOREIGN": CodeInfo(
        Area.CHECKPOINT, E, "remembered head is by no key of this log",
        "A head that the reader remembers or hands over is of a log of another name, or has no signature by a log key "
        "that this log ever enrolled. So "
        "it proves nothing against the log: the head was forged or damaged, or the log shown is another one, in which "
        "the key that signed it does not exist.",
        "compare the head with where it came from; if it is genuine, the log shown lacks its key: do not trust it "
        "(a head that --memory kept together with the entries that enrol its signer would prove more)",
        ExitCode.UNREADABLE,
    ),
    "ROLLBACK": CodeInfo(
        Area.CHECKPOINT, E, "log is shorter than it was",
        "The log holds fewer entries than when it was last seen: it was rolled back or cut.",
        "keep both heads as evidence (`--evidence`) and ask the operator",
    ),
    "FORK": CodeInfo(
        Area.CHECKPOINT, E, "log's history was replaced",
        "The log does not extend the head that was seen before: two histories exist.",
        "keep both signed heads (`--evidence`) and a copy of the log as evidence: two heads of one size prove the fork "
        "alone",
    ),
    "HEAD_FROZEN": CodeInfo(
        Area.CHECKPOINT, E, "head has not moved for too long",
        "The newest head is older than the trust policy accepts, by the cosignatures on it or by the reader's own "
        "clock: somebody may be keeping newer ones back.",
        "ask the operator or another mirror for a newer head; keep the one that was shown as evidence",
    ),
    # -- witness ---------------------------------------------------------------------------------------------
    "WITNESS_QUORUM": CodeInfo(
        Area.WITNESS, E, "too few witnesses",
        "Fewer operators of witnesses that the trust policy names cosigned the newest signed head than it asks for.",
        "ask for a cosigned checkpoint; until then the head may have been made for you alone",
    ),
    "COSIGNATURE_BAD": CodeInfo(
        Area.WITNESS, E, "bad cosignature",
        "A line under the name and key hash of a trusted witness is not a cosignature of this head.",
        "obtain the note again; ask the witness what it signed",
    ),
    "COSIGNATURE_TIMELESS": CodeInfo(
        Area.WITNESS, W, "cosignature without a time",
        "A witness signed with the time 0, which stands for none. The cosignature counts for nothing.",
        "ask the witness to cosign again",
    ),
    "COSIGNATURE_REPEATED": CodeInfo(
        Area.WITNESS, N, "operator counted once",
        "Cosignatures are by several witnesses of one operator. They count as one.",
        "name more witnesses, of different operators, in the trust policy",
    ),
    "WITNESS_NOT_INDEPENDENT": CodeInfo(
        Area.WITNESS, W, "witness key is the log's own",
        "A key that the trust policy names as a witness's has another role in this ledger, or had one until it was "
        "revoked or its enrolment taken back. Who signs a log cannot witness it, so its cosignatures count for "
        "nothing.",
        "name witnesses that others run",
    ),
    "WITNESS_ENTRY_FALSE": CodeInfo(
        Area.CHECKPOINT, E, "witness entry that says something false",
        "An entry keeps a cosignature that is none: the line is not of the witness that it names, or is no signature "
        "of that witness over the checkpoint.",
        "the log's operator takes it back with the log key that signed it (`k3-ledger key revoke KEY --from N`), and "
        "enrols a new one; cosignatures that count stand beside the checkpoints",
    ),
    "WITNESS_ENTRY_OPEN": CodeInfo(
        Area.CHECKPOINT, N, "witness entry not checked",
        "An entry keeps a cosignature of a checkpoint that is not here, or by a witness whose key nobody named.",
        "put the checkpoint into checkpoints/, and the witness's key into the trust policy",
    ),
    "WITNESS_REQUEST": CodeInfo(
        Area.WITNESS, E, "malformed request to a witness",
        "The bytes are not what a witness can be asked: the old size, a proof, a blank line and a checkpoint.",
        "make the request with `k3-ledger cosign`, or with another client of the tlog-witness protocol",
        ExitCode.UNREADABLE,
    ),
    "WITNESS_ORIGIN": CodeInfo(
        Area.WITNESS, E, "log unknown to the witness",
        "The witness was not told about a log of this origin, so it has no key to check its heads with.",
        "its operator adds the log with `k3-ledger witness add-log`; a witness that cosigned it and lost its memory "
        "goes on from the last head with its own cosignature: `--from`",
    ),
    "WITNESS_OLD_SIZE": CodeInfo(
        Area.WITNESS, E, "proof from another size",
        "The proof does not start from the head that the witness cosigned last.",
        "ask again with a proof from the size that the witness names",
    ),
    "WITNESS_SMALLER": CodeInfo(
        Area.WITNESS, E, "smaller than what the proof starts from",
        "The head is smaller than the one that it is said to extend. A smaller head is never cosigned.",
        "ask for the newest head to be cosigned",
    ),
    "WITNESS_FORK": CodeInfo(
        Area.WITNESS, E, "fork shown to a witness",
        "The log signed two heads of one size with different roots. The witness cosigned the first and keeps both.",
        "the two signed notes together prove the fork: publish them",
    ),
    "WITNESS_STATE": CodeInfo(
        Area.WITNESS, E, "state of a witness cannot be used",
        "What the witness remembers is missing, damaged, or less than its own signatures show. It signs nothing rather "
        "than start over.",
        "move what is damaged away and go on from the largest head that anybody keeps with its cosignature "
        "(`k3-ledger witness add-log --from`); if that cannot be known, retire the key and make a new witness under "
        "another name",
        ExitCode.UNREADABLE,
    ),
    "WITNESS_EXISTS": CodeInfo(
        Area.WITNESS, E, "a witness stands there already",
        "The directory holds the state of a witness, or what is left of one. Nothing is ever overwritten.",
        "choose another directory",
        ExitCode.USAGE,
    ),
    "WITNESS_KEY": CodeInfo(
        Area.WITNESS, E, "not this witness's key",
        "The private key is not the one that the directory was made for. Another key is another witness.",
        "give the key file that `k3-ledger witness init` was given",
        ExitCode.USAGE,
    ),
    "WITNESS_CLOCK": CodeInfo(
        Area.WITNESS, E, "clock of the witness went back",
        "The clock stands before the time of the last cosignature, or at no time that can be signed.",
        "set the clock; the witness signs again once it has passed the last time",
    ),
    "WITNESS_UNREACHABLE": CodeInfo(
        Area.WITNESS, E, "witness not reached",
        "The witness gave no answer: no connection, or none in time.",
        "check the address, and try again later",
        ExitCode.UNREADABLE,
    ),
    "WITNESS_ANSWER": CodeInfo(
        Area.WITNESS, E, "answer of a witness cannot be used",
        "What came back is not the answer that the protocol asks for, or not a cosignature by the key that was named.",
        "check address and verifier key of the witness",
        ExitCode.UNREADABLE,
    ),
    "WITNESS_REFUSED": CodeInfo(
        Area.WITNESS, E, "witness refused to cosign",
        "The witness answered, and would not cosign the head.",
        "its reason is shown; a refused proof means that it has seen another history",
    ),
    "WITNESS_AHEAD": CodeInfo(
        Area.WITNESS, E, "witness has seen a larger head",
        "The witness cosigned a head of more entries than this ledger holds: entries are missing here.",
        "do not append: restore the ledger from a copy that holds them",
    ),
    "COSIGNATURE_NO_ROOM": CodeInfo(
        Area.WITNESS, E, "no room for a cosignature",
        "The signed head has as many signature lines as a note may have. The new line is shown and was not kept.",
        "take lines by keys that nobody here relies on out of the file, and ask the witness again",
        ExitCode.UNREADABLE,
    ),
}
# fmt: on
