"""Rows of the registry: where a ledger is kept and what it carries."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import ExitCode, Severity

E, W, N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# fmt: off
ROWS: Final = {
    # -- store -----------------------------------------------------------------------------------------------
    "STORE_MISSING": CodeInfo(
        Area.STORE, E, "no ledger there",
        "The path does not lead to a ledger directory, or to the kind of file that is needed.",
        "check the path; `k3-ledger init` makes a new ledger", ExitCode.UNREADABLE,
    ),
    "STORE_EXISTS": CodeInfo(
        Area.STORE, E, "a ledger stands there already",
        "The path is taken. Nothing is ever overwritten.",
        "choose another path", ExitCode.USAGE,
    ),
    "DISK_FULL": CodeInfo(
        Area.STORE, E, "disk full",
        "The file system, the quota or the file size limit has no room. Nothing that failed was acknowledged.",
        "free space, then try again", ExitCode.UNREADABLE,
    ),
    "DISK_ERROR": CodeInfo(
        Area.STORE, E, "disk error",
        "A read, write or sync failed. Nothing that failed was acknowledged.",
        "check the disk before writing again", ExitCode.UNREADABLE,
    ),
    "READ_ONLY": CodeInfo(
        Area.STORE, E, "read-only file system",
        "Something had to be written and the file system is mounted read-only.",
        "write on the original of a ledger, and other files where the file system is mounted for writing",
        ExitCode.UNREADABLE,
    ),
    "ACCESS_DENIED": CodeInfo(
        Area.STORE, E, "access denied",
        "The operating system refused for want of permission.",
        "run as the owner of the directory, fix its mode, or choose another place", ExitCode.UNREADABLE,
    ),
    "LOCK_BUSY": CodeInfo(
        Area.STORE, E, "another writer holds the ledger",
        "Another process or thread was writing for the whole time that was allowed for waiting. Nothing was appended "
        "or changed. So it is said of a witness, a trust policy and a memory.",
        "wait for it to end, or allow more time; stop it if it hangs (its lock ends with it)", ExitCode.UNREADABLE,
    ),
    "LOCK_UNSUPPORTED": CodeInfo(
        Area.STORE, E, "file system without locks",
        "The file system grants no locks (often NFS), so two writers could not be kept apart. Nothing was appended.",
        "keep the ledger on a local disk while writing, and copy it afterwards", ExitCode.UNREADABLE,
    ),
    "LOG_REPLACED": CodeInfo(
        Area.STORE, E, "ledger changed under the writer",
        "The ledger was cut or rewritten by something that takes no lock while it was open for writing.",
        "find out what rewrites it (git, rsync, an editor), run `k3-ledger verify`, then write again",
        ExitCode.UNREADABLE,
    ),
    "WRITER_STOPPED": CodeInfo(
        Area.STORE, E, "writer stopped after a failure",
        "A write or sync failed before, so what the disk holds is uncertain. This writer appends nothing more.",
        "check the disk, run `k3-ledger verify`, then open a new writer", ExitCode.UNREADABLE,
    ),
    "ENTRY_TOO_LONG": CodeInfo(
        Area.STORE, E, "entry too long",
        "The entry would not fit into a line of 65,535 bytes. Nothing was appended.",
        "store large content as an artifact and name its digest", ExitCode.UNREADABLE,
    ),
    "RECOVER_REFUSED": CodeInfo(
        Area.STORE, E, "recovery refused",
        "Cutting the tail off would not repair this ledger: acknowledged entries are missing or"
        " changed, or it cannot be told.",
        "restore ledger.jsonl from a copy that verifies",
    ),
    "BLOB_DAMAGED": CodeInfo(
        Area.STORE, E, "stored artifact damaged",
        "A file in the artifact store does not hash to its name. It is kept as it is.",
        "move it aside, keep it as evidence, and store the right artifact again",
    ),
    "ARTIFACT_TOO_LONG": CodeInfo(
        Area.STORE, E, "artifact too long",
        "A file is longer than an artifact that is stored may be: whoever verifies reads all of it. "
        "Nothing was appended.",
        "keep it elsewhere, and store a file that holds its digest", ExitCode.UNREADABLE,
    ),
    "INDEX_UNUSABLE": CodeInfo(
        Area.STORE, E, "index cannot be used",
        "The derived index cannot be opened or written. The ledger itself is not concerned.",
        "delete index.sqlite and run `k3-ledger index`", ExitCode.UNREADABLE,
    ),
    "NO_SUCH_ENTRY": CodeInfo(
        Area.STORE, E, "no such entry",
        "No entry has that index or identity.",
        "see `k3-ledger ls`", ExitCode.USAGE,
    ),
    "NO_SUCH_KEY": CodeInfo(
        Area.STORE, E, "no such key",
        "No valid key of the ledger, or more than one, has the name, the key id or the public key that was given.",
        "see `k3-ledger key ls`", ExitCode.USAGE,
    ),
    "NO_SUCH_HEAD": CodeInfo(
        Area.STORE, E, "no such signed head",
        "The ledger keeps no signed head of the size that was given.",
        "name one of those in checkpoints/, or sign heads with `k3-ledger checkpoint`; it keeps every one of them",
        ExitCode.USAGE,
    ),
    # -- artifact --------------------------------------------------------------------------------------------
    "BUNDLE_TAR": CodeInfo(
        Area.ARTIFACT, E, "tar not acceptable as a bundle",
        "The tar is damaged, or holds what a bundle never holds: links, devices, climbing or absolute names.",
        "make it with `tar --format=ustar -cf bundle.tar -C BUNDLE .`", ExitCode.UNREADABLE,
    ),
    "BUNDLE_MISSING_FILE": CodeInfo(
        Area.ARTIFACT, E, "bundle is incomplete",
        "bundle.json, or an artifact that it names, is not in the bundle.",
        "copy the whole bundle again from the machine that made it", ExitCode.UNREADABLE,
    ),
    "BUNDLE_EXTRA_FILE": CodeInfo(
        Area.ARTIFACT, E, "bundle holds more than it names",
        "The bundle holds something that bundle.json does not name. It would be lost in sealing.",
        "take it out, or name it in bundle.json", ExitCode.UNREADABLE,
    ),
    "BUNDLE_MISMATCH": CodeInfo(
        Area.ARTIFACT, E, "artifact is not what the bundle says",
        "An artifact's size or digest is not the one that bundle.json names, or the bundle is not the expected one.",
        "copy the bundle again from the machine that made it",
    ),
    "ARTIFACT_MISSING": CodeInfo(
        Area.ARTIFACT, W, "artifact is not there",
        "An entry names an artifact that does not stand beside the ledger, so it could not be hashed. It "
        "is counted as not checked.",
        "get the artifact; require the step 'artifacts' in the trust policy if you cannot do without",
    ),
    "ARTIFACT_UNREADABLE": CodeInfo(
        Area.ARTIFACT, W, "artifact cannot be read",
        "What stands in an artifact's place is no regular file, or the operating system refused to read it. It is "
        "counted as not checked.",
        "put the artifact itself there; require the step 'artifacts' in the trust policy if you cannot do without",
    ),
    "ARTIFACT_MISMATCH": CodeInfo(
        Area.ARTIFACT, E, "artifact was changed",
        "A stored artifact does not hash to the digest that was sealed.",
        "restore the original artifact",
    ),
    "ARTIFACT_SIZE": CodeInfo(
        Area.ARTIFACT, E, "one digest, two sizes",
        "Two entries give the same digest different sizes: one is wrong, and the stored bytes say which.",
        "find out which writer recorded the wrong size; `k3-ledger key revoke --from` takes back what his key said",
    ),
    # -- mirror ----------------------------------------------------------------------------------------------
    "TILE_MALFORMED": CodeInfo(
        Area.MIRROR, E, "malformed tile",
        "A tile or an entry bundle has another length, or holds another number of entries, than its place asks for.",
        "rebuild tile/ with `k3-ledger tiles`, or fetch it again",
    ),
    "TILE_MISMATCH": CodeInfo(
        Area.MIRROR, E, "tile does not lead to the signed root",
        "A tile or an entry bundle holds something else than what the signed head commits to.",
        "rebuild tile/ with `k3-ledger tiles`; on somebody else's mirror, keep it and the signed head as evidence",
    ),
    "TILE_MISSING": CodeInfo(
        Area.MIRROR, E, "tile is not there",
        "A tile that is needed could not be had, so nothing can be said about what it holds.",
        "ask another mirror, or the log itself", ExitCode.NOT_CHECKED,
    ),
    "MIRROR_INCOMPLETE": CodeInfo(
        Area.MIRROR, E, "mirror lacks entries",
        "Some entries that the signed head commits to are not on this mirror. What is there was checked; what is "
        "missing was not, so the log as a whole was not verified.",
        "ask another mirror, or the log itself, for what is missing", ExitCode.NOT_CHECKED,
    ),
    "TILES_CONFLICT": CodeInfo(
        Area.MIRROR, E, "full tile is not what the ledger makes",
        "A full tile never changes, and the one that stands there holds something else than the ledger.",
        "one of the two was changed: verify the ledger, then move tile/ away and run `k3-ledger tiles` again",
    ),
    "REMOTE_UNREADABLE": CodeInfo(
        Area.MIRROR, E, "address cannot be read",
        "Something that is needed could not be fetched, or the transfer ended early.",
        "try again, check the address, or ask another mirror", ExitCode.UNREADABLE,
    ),
    "KEY_ENTRIES_WRONG": CodeInfo(
        Area.MIRROR, E, "the mirror's list of key entries is wrong",
        "The file key-entries leaves out entries that enrol keys. With all entries read instead of it, the proof "
        "holds: nothing is wrong with the log.",
        "rebuild it with `k3-ledger tiles`, or ask another mirror", ExitCode.UNREADABLE,
    ),
    "ARCHIVE_REFUSED": CodeInfo(
        Area.MIRROR, E, "archive not acceptable",
        "The file is no tar of a ledger or of an offline bundle: it is damaged, or holds links, devices, climbing "
        "names, members that stand twice, more than its own list names, or more files than a verifier takes.",
        "make it with `k3-ledger bundle pack`, or with `tar --format=ustar -cf ledger.tar -C LEDGER .`",
        ExitCode.UNREADABLE,
    ),
    "ARCHIVE_MISMATCH": CodeInfo(
        Area.MIRROR, E, "file in an offline bundle was changed",
        "A file in an offline bundle does not hash to what the bundle's own list says of it.",
        "obtain the bundle again",
    ),
    "ARCHIVE_CONTRADICTION": CodeInfo(
        Area.MIRROR, E, "offline bundle that contradicts itself",
        "The list of an offline bundle names another log, tree size or root than the checkpoint in the same bundle, so "
        "one of the two was put there by somebody else.",
        "obtain the bundle again; what it is about cannot be told",
    ),
    "ARCHIVE_POLICY": CodeInfo(
        Area.MIRROR, N, "packed under another trust policy",
        "The offline bundle names the digest of the trust policy that its maker verified it under; yours is another.",
        "ask its maker for the policy, and decide for yourself whether you share it",
    ),
}
# fmt: on
