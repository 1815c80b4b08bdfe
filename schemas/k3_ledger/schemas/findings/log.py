"""Rows of the registry: what binds entries to one another, to keys and to time."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import ExitCode, Severity

E, W, N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# fmt: off
ROWS: Final = {
    # -- chain -----------------------------------------------------------------------------------------------
    "CHAIN_NO_GENESIS": CodeInfo(
        Area.CHAIN, E, "beginning is missing",
        "The first line is not a genesis entry: entries in front of it are gone, or this is a fragment.",
        "get the whole log; a proof file is the way to show a single entry",
    ),
    "CHAIN_SECOND_GENESIS": CodeInfo(
        Area.CHAIN, E, "second ledger joined",
        "A genesis entry stands after the first line: two logs were put into one file.",
        "split the file where the second log begins and verify each",
    ),
    "CHAIN_INDEX": CodeInfo(
        Area.CHAIN, E, "entry out of order",
        "An entry's index is not one more than that of the entry in front: entries are missing, repeated "
        "or swapped.",
        "restore the original file; the position says where the order breaks",
    ),
    "CHAIN_REPEATED": CodeInfo(
        Area.CHAIN, E, "entry repeated",
        "A line holds the same entry as the line in front of it.",
        "restore the original file",
    ),
    "CHAIN_FORK": CodeInfo(
        Area.CHAIN, E, "fork inside the log",
        "Two entries continue the same entry. Two writers appended without a lock, or somebody joined two"
        " histories.",
        "keep the file as evidence; decide which branch the newest signed head commits to",
    ),
    "CHAIN_PREV": CodeInfo(
        Area.CHAIN, E, "entry does not follow",
        "An entry's prev is not the identity of the entry in front of it: one of the two was replaced or "
        "changed.",
        "restore the original file; the entry in front is the likelier one to have changed",
    ),
    "CLAIMED_TIME": CodeInfo(
        Area.CHAIN, W, "claimed time goes backwards",
        "An entry claims an earlier time than the entry in front. Order comes from the chain, so nothing "
        "follows from it but doubt about a clock.",
        "ask the signer about the clock of that machine",
    ),
    # -- signature -------------------------------------------------------------------------------------------
    "SIGNATURE_LENGTH": CodeInfo(
        Area.SIGNATURE, E, "signature of wrong length",
        "An Ed25519 signature is 64 bytes.",
        "obtain the original signature",
    ),
    "SIGNATURE_S_RANGE": CodeInfo(
        Area.SIGNATURE, E, "signature scalar out of range",
        "S is not below the group order: somebody made a second spelling of a signature (malleability).",
        "obtain the original signature",
    ),
    "SIGNATURE_R_ENCODING": CodeInfo(
        Area.SIGNATURE, E, "signature point not canonical",
        "R is not the one accepted encoding of a point of the curve.",
        "obtain the original signature",
    ),
    "SIGNATURE_R_LOW_ORDER": CodeInfo(
        Area.SIGNATURE, E, "signature point of low order",
        "R is one of the eight points whose order divides eight. No honest signer produces it.",
        "treat the signer as hostile",
    ),
    "SIGNATURE_MISMATCH": CodeInfo(
        Area.SIGNATURE, E, "bad signature",
        "The signature does not belong to this message and key: one of the three was changed.",
        "compare with a copy that verifies",
    ),
    # -- keys ------------------------------------------------------------------------------------------------
    "KEY_FILE_UNREADABLE": CodeInfo(
        Area.KEYS, E, "key file cannot be read",
        "The key file is missing, is not a regular file, or the operating system refused to open it.",
        "check the path and who may read it", ExitCode.UNREADABLE,
    ),
    "KEY_FILE_EXPOSED": CodeInfo(
        Area.KEYS, E, "private key exposed",
        "Others than its owner can read or write the private key file, or it was handed in as an artifact, which is "
        "published, or within one. Recognized are PEM, also in JSON and in UTF-16, and an Ed25519 key in plain DER; a "
        "key that is encoded or compressed in another way is not.",
        "chmod 600 the file; rotate the key if others may have read it", ExitCode.USAGE,
    ),
    "KEY_FILE_PASSPHRASE": CodeInfo(
        Area.KEYS, E, "passphrase missing or wrong",
        "The key file is encrypted and the passphrase is missing or does not open it, or one was given for a file that "
        "has none.",
        "give the passphrase of this very key file", ExitCode.USAGE,
    ),
    "KEY_FILE_MALFORMED": CodeInfo(
        Area.KEYS, E, "not an Ed25519 key file",
        "The file is not PEM, not PKCS#8 or SPKI, not Ed25519, or damaged.",
        "make a key with `k3-ledger keygen`, or restore the file from a copy", ExitCode.UNREADABLE,
    ),
    "KEY_FILE_EXISTS": CodeInfo(
        Area.KEYS, E, "key file exists",
        "A key file stands at that path already. A key that is overwritten is lost for good.",
        "choose another path", ExitCode.USAGE,
    ),
    "PUBLIC_KEY_LENGTH": CodeInfo(
        Area.KEYS, E, "public key of wrong length",
        "A raw Ed25519 public key is 32 bytes.",
        "obtain the original key",
    ),
    "PUBLIC_KEY_ENCODING": CodeInfo(
        Area.KEYS, E, "public key is not a point",
        "The public key is not the one accepted encoding of a point of the curve.",
        "obtain the original key",
    ),
    "PUBLIC_KEY_LOW_ORDER": CodeInfo(
        Area.KEYS, E, "public key of low order",
        "The public key is one of the eight points whose order divides eight: anybody can sign for it.",
        "refuse the key; whoever offers it is hostile or broken",
    ),
    "PUBLIC_KEY_MIXED_ORDER": CodeInfo(
        Area.KEYS, E, "public key outside the prime-order subgroup",
        "The public key has a torsion component, so verifiers disagree about its signatures. No honest tool makes it.",
        "refuse the key; whoever offers it is hostile or broken",
    ),
    "VERIFIER_KEY": CodeInfo(
        Area.KEYS, E, "malformed verifier key",
        "The text is not a verifier key: name, key hash and base64 key, joined by plus signs.",
        "copy the whole key, plus signs included",
    ),
    "KEY_UNKNOWN": CodeInfo(
        Area.KEYS, E, "key was never enrolled",
        "An entry names a key that no key entry of this log enrols, so its signature cannot count.",
        "this is a missing key, not a bad signature: enrol the key before it signs",
    ),
    "KEY_WEAK": CodeInfo(
        Area.KEYS, E, "key is not a proper point",
        "A public key is not the canonical encoding of a point of the prime-order subgroup.",
        "enrol another key",
    ),
    "KEY_ID_MISMATCH": CodeInfo(
        Area.KEYS, E, "key id is not the hash of the key",
        "A key entry's key_id is not the SHA-256 of its public_key.",
        "write the key entry again with the right id",
    ),
    "KEY_ENROLLED_TWICE": CodeInfo(
        Area.KEYS, E, "key enrolled twice",
        "A key entry enrols a key that the log enrolled before.",
        "revoke and enrol another key instead",
    ),
    "KEY_UNKNOWN_TARGET": CodeInfo(
        Area.KEYS, E, "key action without a target",
        "A rotation or revocation names a key, role or position that does not fit.",
        "name an enrolled key of the same role, and no position after the entry itself",
    ),
    "KEY_WRONG_ROLE": CodeInfo(
        Area.KEYS, E, "role may not sign this kind",
        "A key signed an entry of a kind that its role has no right to sign.",
        "sign it again with a key of the right role; see docs/format.md for who signs what",
    ),
    "KEY_NOT_YET": CodeInfo(
        Area.KEYS, E, "key used before it was enrolled",
        "An entry stands in front of the key entry that enrols its signer.",
        "enrol a key first, then sign with it",
    ),
    "KEY_RETIRED": CodeInfo(
        Area.KEYS, E, "key used after it was retired",
        "An entry stands behind the key entry that rotated or revoked its signer.",
        "sign with a key that is still valid; find out who still holds the old one",
    ),
    "KEY_DISOWNED": CodeInfo(
        Area.KEYS, W, "entries disowned by a revocation",
        "A compromise revocation takes back what the key signed from an earlier position on. Those "
        "entries stand in the log and count for nothing.",
        "seal the bundle, import the log or append the entry again, with a key that counts; it is added a second time",
    ),
    "THRESHOLD_NOT_MET": CodeInfo(
        Area.KEYS, E, "too few root keys behind a root action",
        "A key or threshold entry has fewer root keys behind it, its signer and each endorser counted once, than "
        "the threshold in force asks for. It does not count.",
        "collect endorsements first: `k3-ledger key … --propose FILE`, then `k3-ledger key endorse FILE`",
    ),
    "THRESHOLD_IMPOSSIBLE": CodeInfo(
        Area.KEYS, E, "threshold above the number of root keys",
        "A threshold entry asks for more root keys than count in the log at that place.",
        "enrol further root keys first",
    ),
    "ROOTS_TOO_FEW": CodeInfo(
        Area.KEYS, W, "fewer root keys left than the threshold",
        "A root key was retired and fewer are left than the threshold asks for, so no root action can follow: no key "
        "can be enrolled, rotated or revoked any more. The writer appends that only where it is asked for by name.",
        "rotate root keys instead of revoking them, or enrol another or lower the threshold first; `--last-root` "
        "closes the keys of a ledger on purpose",
    ),
    "KEY_NOT_SHOWN": CodeInfo(
        Area.KEYS, E, "root key that nobody has shown to hold",
        "A root key was to be retired, and of those that would be left too few have stood behind a root action or been "
        "shown to be held. If nobody holds them, no key can be enrolled, rotated or revoked any more.",
        "give the new key's private half with --new-key (it signs nothing in the log), or enrol the new key first and "
        "have its holder sign the revocation of the old one; `--unproven` does it all the same",
    ),
    "ENDORSER_UNKNOWN": CodeInfo(
        Area.KEYS, E, "endorsed by a key that is no root there",
        "An endorsement names a key that is not an enrolled root key at that place, or was retired before.",
        "collect the endorsement of a root key that counts; `k3-ledger key ls` shows them",
    ),
    "ENDORSEMENT_REPEATED": CodeInfo(
        Area.KEYS, E, "root key counted twice",
        "A root action carries two endorsements by one key, or one by its own signer. A key counts once.",
        "leave the second one out",
    ),
    "ENDORSEMENT_SIGNATURE": CodeInfo(
        Area.KEYS, E, "endorsement of something else",
        "An endorsement is not a signature of the key it names over this action in this log: it was made for another "
        "action or another log, or was changed.",
        "show the proposal to that root key's holder and collect the endorsement again",
    ),
    "ENDORSEMENT_STALE": CodeInfo(
        Area.KEYS, E, "endorsement of an earlier state of the keys",
        "An endorsement was made before another root action was appended. It counts for that earlier state only, so "
        "that it cannot be used a second time.",
        "propose the action again and collect the endorsements again",
    ),
    "PROPOSAL_MALFORMED": CodeInfo(
        Area.KEYS, E, "not a proposal",
        "A file is not one that `k3-ledger key … --propose` wrote and holders of root keys endorse.",
        "have the proposal sent again", ExitCode.UNREADABLE,
    ),
    "PROPOSALS_DIFFER": CodeInfo(
        Area.KEYS, E, "files of different proposals",
        "Several files were given as copies of one proposal, and they propose different things.",
        "give the copies of one proposal only", ExitCode.USAGE,
    ),
    "REVOCATION_CIRCULAR": CodeInfo(
        Area.KEYS, E, "revocation undoes itself",
        "A compromise revocation takes back, directly or through other revocations, an enrolment or a revocation that "
        "it rests on itself.",
        "revoke from a later entry, or have root keys stand behind it whose enrolment it does not take back",
    ),
    "REVOCATIONS_TOO_MANY": CodeInfo(
        Area.KEYS, E, "too many revocations reach back",
        "More than 32 revocations of root keys in one log name an earlier position. What such a revocation takes back "
        "is found by going through all root actions again, so their number is limited.",
        "leave --from out: the key is retired all the same; or begin a new log, with new root keys",
    ),
    # -- proof -----------------------------------------------------------------------------------------------
    "PROOF_SHAPE": CodeInfo(
        Area.PROOF, E, "proof of wrong shape",
        "A Merkle proof has the wrong number of hashes for its position and tree size, or a position outside the tree.",
        "obtain a proof made for this tree size",
    ),
    "INCLUSION_MISMATCH": CodeInfo(
        Area.PROOF, E, "entry is not in the tree",
        "The inclusion proof leads to another root: the entry, its position, the proof or the root was changed.",
        "obtain the proof again from the ledger",
    ),
    "CONSISTENCY_MISMATCH": CodeInfo(
        Area.PROOF, E, "trees are not consistent",
        "The newer tree does not extend the older one: history was rewritten, or the proof was changed.",
        "keep both signed heads: with the log's entries up to the newer one they tell which",
    ),
    "PROOF_FILE": CodeInfo(
        Area.PROOF, E, "malformed proof file",
        "The document is canonical, but its members are not those of a proof file.",
        "make the proof again with `k3-ledger prove`",
    ),
    "PROOF_TOO_LARGE": CodeInfo(
        Area.PROOF, E, "too many entries for a proof file",
        "The entry's signer and the head rest on more key and threshold entries than a proof file may hold.",
        "hand over the ledger itself",
        exit_code=ExitCode.USAGE,
    ),
    "TLOG_PROOF": CodeInfo(
        Area.PROOF, E, "malformed C2SP proof",
        "The text is not a tlog-proof: header, optional extra data, index, hashes, blank line, checkpoint.",
        "obtain the proof again",
    ),
    "NOT_CHECKPOINTED": CodeInfo(
        Area.PROOF, E, "entry not covered by a checkpoint",
        "No signed head commits to the entry yet, so nothing can be proved about it.",
        "sign a checkpoint first (`k3-ledger checkpoint`)", ExitCode.USAGE,
    ),
    "PROOF_DISOWNED": CodeInfo(
        Area.PROOF, E, "proved entry was taken back",
        "The proof carries a revocation that takes back the entry it is about: the entry counts for nothing.",
        "seal the bundle, import the log or append the entry again, with a key that counts; then prove that entry",
    ),
    "PROOF_INCOMPLETE": CodeInfo(
        Area.PROOF, E, "proof lacks an entry",
        "A proof file does not carry an entry that is needed to authenticate its subject.",
        "make the proof again from the ledger",
    ),
    # -- timestamp -------------------------------------------------------------------------------------------
    "TIMESTAMP_UNREADABLE": CodeInfo(
        Area.TIMESTAMP, W, "timestamp cannot be read",
        "A file in timestamps/ is no RFC 3161 response over a SHA-256 digest that can be read. It bounds nothing.",
        "ask the authority again: `k3-ledger timestamp request`",
    ),
    "TIMESTAMP_UNTRUSTED": CodeInfo(
        Area.TIMESTAMP, N, "timestamp by an authority that is not named",
        "The certificate of a timestamp leads to none of the roots in the trust policy, so it was not checked.",
        "if you trust that authority, add its root: `k3-ledger trust add timestamps ROOT.pem`",
    ),
    "TIMESTAMP_BAD": CodeInfo(
        Area.TIMESTAMP, E, "timestamp does not hold",
        "A timestamp names an authority that the trust policy trusts, and is not what that authority signed.",
        "remove the file, or obtain it again: somebody changed it, or its signer's certificate is not for timestamps",
    ),
    "TIMESTAMP_ELSEWHERE": CodeInfo(
        Area.TIMESTAMP, N, "timestamp of something else",
        "A timestamp holds, and is of a digest that is none of the signed heads that are here. It bounds nothing.",
        "keep the signed head that it is of in checkpoints/",
    ),
    "TIMESTAMP_VAGUE": CodeInfo(
        Area.TIMESTAMP, N, "timestamp without a usable time",
        "The authority signed the timestamp and states that its clock may be more than a day off, or gives a time "
        "behind the year 9999. It bounds nothing.",
        "ask an authority that states a better accuracy",
    ),
}
# fmt: on
