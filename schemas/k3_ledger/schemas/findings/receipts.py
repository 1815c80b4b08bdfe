"""Rows of the registry: what a receipt claims and what a policy asks."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import ExitCode, Severity

E = Severity.ERROR

# fmt: off
ROWS: Final = {
    # -- receipt ---------------------------------------------------------------------------------------------
    "RECEIPT_CLOCK": CodeInfo(
        Area.RECEIPT, E, "repetitions overlap",
        "Repetitions of one series overlap in time or run backwards, so they do not come from one "
        "monotonic clock; or what one clock saw of one thing stands in two series, where one repetition could count "
        "twice.",
        "measure again with a monotonic clock, one repetition after the other, and list them in one series",
    ),
    "RECEIPT_COUNTS": CodeInfo(
        Area.RECEIPT, E, "counts contradict each other",
        "A receipt counts more of something than there was, or than a run may have.",
        "measure again; the position names the field",
    ),
    "RECEIPT_IMPOSSIBLE": CodeInfo(
        Area.RECEIPT, E, "faster than any machine",
        "A repetition did more of its unit in its time than any machine could: more than a token a nanosecond, or more "
        "bytes or operations than a thousand of the largest installations together.",
        "check what was counted, in which unit, and which clock was read; docs/verify.md lists the bounds",
    ),
    "RECEIPT_PARITY": CodeInfo(
        Area.RECEIPT, E, "parity figures contradict each other",
        "A parity record's depths, means or maxima cannot come from one comparison.",
        "grade again; the position names the field",
    ),
    "RECEIPT_BUNDLE": CodeInfo(
        Area.RECEIPT, E, "receipt is not its bundle",
        "A receipt is a bundle and the digest of that bundle; here the rest of the body hashes to something else.",
        "seal the bundle again with `k3-ledger seal`",
    ),
    "ARTIFACT_NAME_TAKEN": CodeInfo(
        Area.RECEIPT, E, "two artifacts of one name",
        "A receipt names two artifacts alike, so which of them is meant by that name cannot be told.",
        "give each artifact of a receipt a name of its own and seal again",
    ),
    "IMPORT_ORIGINAL": CodeInfo(
        Area.RECEIPT, E, "import without its original",
        "The original that an import names is none of its artifacts, so nothing that was copied out of it can be held "
        "against it.",
        "import the foreign log again with `k3-ledger import polaris`",
    ),
    "IMPORT_FIELDS": CodeInfo(
        Area.RECEIPT, E, "import says other than its originals",
        "An import holds a field, an attestation or an original that reading its originals does not give, lacks one "
        "that it gives, or keeps silent on a digest that does not come out in them. Rules, pins and claims read what "
        "an import says: it is the importer's word against the bytes that were imported.",
        "do not trust what is scored from this import: no later entry makes it true; ask who imported, and import the "
        "originals into another ledger with `k3-ledger import polaris`",
    ),
    "IMPORT_DIFFERS": CodeInfo(
        Area.RECEIPT, E, "log differs from what was imported",
        "A foreign log holds another receipt, listing row, result or log text for an item that the ledger has "
        "imported: bytes of a published record were changed, on one side or the other.",
        "keep both: the ledger holds the earlier bytes as artifacts; ask who changed the log, and to seal what it says "
        "now, import it into another ledger",
    ),
    "IMPORT_QUOTE_OPEN": CodeInfo(
        Area.RECEIPT, Severity.NOTE, "imported quote not checked",
        "An import says that its original is attested, and that could not be looked at: the original is not here, "
        "cannot be read, carries no quote, or lacks a field that the check needs.",
        "put the artifacts beside the ledger, or run `k3-ledger audit polaris` on the log that the receipt comes from",
    ),
    "IMPORT_QUOTE_ELSEWHERE": CodeInfo(
        Area.RECEIPT, Severity.WARNING, "imported quote outside of the original",
        "An artifact of an import carries a quote that is not its original's: the entry names another artifact as the "
        "original, so nobody looked at that quote. Who imports chooses what is called the original.",
        "look at the artifact yourself, or run `k3-ledger audit polaris` on the log that the receipt comes from; "
        '`require = ["attestations"]` in the policy refuses such a ledger',
    ),
    "REFERENCE_UNKNOWN": CodeInfo(
        Area.RECEIPT, E, "entry names an entry that is not there",
        "An entry refers to an earlier entry by an identity that no earlier entry has.",
        "name the identity that `k3-ledger show` prints",
    ),
    "REFERENCE_KIND": CodeInfo(
        Area.RECEIPT, E, "entry names an entry of the wrong kind",
        "An entry refers to one that it cannot be about: a round or a merge to something that is no receipt, a "
        "supersession to what says which keys count.",
        "name a receipt; what a key entry says is changed by another key entry only",
    ),
    # -- policy ----------------------------------------------------------------------------------------------
    "POLICY_EXISTS": CodeInfo(
        Area.POLICY, E, "trust policy stands there already",
        "A policy file, or a key in it, would be replaced by something else, and that was not asked for.",
        "look at it with `k3-ledger trust show`; say --replace if you mean it", ExitCode.USAGE,
    ),
    "POLICY_MALFORMED": CodeInfo(
        Area.POLICY, E, "trust policy cannot be read",
        "The trust policy is not TOML (then the exit code is 3), has an unknown key, or a value of the wrong form.",
        "see docs/verify.md for its keys",
        ExitCode.USAGE,
    ),
    "ROOT_NOT_TRUSTED": CodeInfo(
        Area.POLICY, E, "log opened by another root key",
        "The genesis entry was not signed by the root key that the trust policy names.",
        "get the root key from its owner over another channel, or distrust this log",
    ),
    "ROOT_NOT_CHECKED": CodeInfo(
        Area.POLICY, E, "whose log this is cannot be told",
        "The genesis entry is missing, damaged, or its signature does not verify. What rests on it was not checked: "
        "who opened the log, which keys were enrolled, who signed its heads. This accuses nobody.",
        "mend what is wrong with line 1, which another finding names, or get a good copy; then verify again",
        ExitCode.NOT_CHECKED,
    ),
    "ORIGIN_NOT_TRUSTED": CodeInfo(
        Area.POLICY, E, "log has another name",
        "The log's origin is not the one that the trust policy names.",
        "check which log you meant to verify",
    ),
    "REQUIRED_NOT_CHECKED": CodeInfo(
        Area.POLICY, E, "required step was not checked",
        "The trust policy requires a step that could not be carried out in full.",
        "supply what was missing, or relax the policy knowingly",
        ExitCode.NOT_CHECKED,
    ),
}
# fmt: on
