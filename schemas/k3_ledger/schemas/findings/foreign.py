"""Rows of the registry: logs of another make."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import ExitCode, Severity

E, W, N = Severity.ERROR, Severity.WARNING, Severity.NOTE

# fmt: off
ROWS: Final = {
    # -- foreign ---------------------------------------------------------------------------------------------
    "NOT_A_RUN_LOG": CodeInfo(
        Area.FOREIGN, E, "not a run log",
        "Nothing in the directory has the shape of an evaluation log: no run, no ledger line of one, no index.",
        "point the command at the directory that holds runs/ or ledger.jsonl", ExitCode.UNREADABLE,
    ),
    "FOREIGN_NOT_READ": CodeInfo(
        Area.FOREIGN, W, "part of the log not read",
        "Where a record of the log should be stands a link, a folder or a special file, or the second log text of a "
        "folder; or a text prints attestations of another try or change, or more than are held against one another. "
        "Links lead out of the log, and of two texts one is read: what is there was not checked.",
        "put the record itself in its place, one log text a folder, and run the command again", ExitCode.NOT_CHECKED,
    ),
    "FOREIGN_SHAPE": CodeInfo(
        Area.FOREIGN, E, "record of the wrong shape",
        "A record is JSON but not of the type its place asks for, or a field cannot be what its name says.",
        "see the position; nothing was taken from this record or field",
    ),
    "FOREIGN_NUMBER": CodeInfo(
        Area.FOREIGN, E, "number out of reason",
        "A number has more digits or a larger exponent than any measurement. It is kept as text and not compared.",
        "find out what wrote it",
    ),
    "FOREIGN_HASH": CodeInfo(
        Area.FOREIGN, E, "hash does not come out",
        "A digest in a foreign receipt is not the digest of what it claims to cover.",
        "the digest or what it covers was changed: nothing that hangs on it can be trusted",
    ),
    "FOREIGN_QUOTE": CodeInfo(
        Area.FOREIGN, E, "malformed quote",
        "A TDX quote does not have the structure of a version 4 quote.",
        "nothing that hangs on this quote was checked",
    ),
    "FOREIGN_QUOTE_PADDING": CodeInfo(
        Area.FOREIGN, W, "unsigned bytes after the quote",
        "The bytes behind a quote's signature data are not all zero. Nothing signs them.",
        "ignore them",
    ),
    "FOREIGN_SIGNATURE": CodeInfo(
        Area.FOREIGN, E, "foreign signature fails",
        "The Ed25519 signature of a foreign receipt does not verify over its attestation.",
        "the attestation, the signature or the key was changed",
    ),
    "FOREIGN_SIGNER_UNKNOWN": CodeInfo(
        Area.FOREIGN, W, "signer not authenticated",
        "A foreign receipt is signed by a key that it brings along. Anyone can make such a receipt.",
        "get the signer's key from elsewhere and give it with --public-key",
    ),
    "FOREIGN_SIGNER_OTHER": CodeInfo(
        Area.FOREIGN, E, "signed by another key",
        "A foreign receipt is signed by a key that is none of the keys given.",
        "check where the receipt and the key came from",
    ),
    "FOREIGN_SIGNED_ROUNDED": CodeInfo(
        Area.FOREIGN, W, "shown value is not the signed value",
        "Numbers are rounded to six places before they are signed, so the value shown can change unnoticed.",
        "read the rounded value; the rest of the digits is not vouched for",
    ),
    "FOREIGN_CHAIN_UNSIGNED": CodeInfo(
        Area.FOREIGN, W, "chain fields outside the signature",
        "The fields that should link foreign receipts are not among the signed bytes: order can be edited.",
        "do not take an order from them",
    ),
    "FOREIGN_CHAIN_UNLINKED": CodeInfo(
        Area.FOREIGN, W, "chain never linked",
        "A receipt calls itself the first of its chain in a log that holds several: no receipt commits to another.",
        "receipts can be removed or reordered without a trace",
    ),
    "FOREIGN_CHAIN_BROKEN": CodeInfo(
        Area.FOREIGN, E, "links are no chain",
        "A receipt names a previous receipt that is not in the log, that leads back to it, "
        "or that another one names too.",
        "a receipt was removed or put in, or the link was edited",
    ),
    "FOREIGN_CHAIN_INDEX": CodeInfo(
        Area.FOREIGN, E, "place in the chain is another",
        "The place that a receipt states in its chain is not the one to which the links lead.",
        "a receipt was removed, put in or moved, or the place was edited",
    ),
    "FOREIGN_ATTESTATION_UNBOUND": CodeInfo(
        Area.FOREIGN, W, "attestation body not bound",
        "No digest of the attestation body, or of a part of it, is among what the quote covers: "
        "it can be edited and every hash still comes out.",
        "trust only the fields that the binding table calls bound or confirmed",
    ),
    "FOREIGN_NONCE_UNBOUND": CodeInfo(
        Area.FOREIGN, W, "nonce binds nothing",
        "The nonce is not the digest of commit, model digest and seed that this family documents; "
        "it only shows that the quote belongs to this receipt.",
        "the quote says nothing about the full commit or the model",
    ),
    "FOREIGN_RECEIPT_ID_COMMON": CodeInfo(
        Area.FOREIGN, W, "receipt id covers a constant",
        "Receipt ids are digests of the quote's first characters, which are the same in every receipt, "
        "and of the sealed output: they name an output, not a run.",
        "use the digest of the receipt's bytes as its name",
    ),
    "FOREIGN_ADDED_AFTER_SEALING": CodeInfo(
        Area.FOREIGN, W, "added after sealing",
        "A published result carries fields that are not in the result that was sealed.",
        "those fields are not evidence",
    ),
    "FOREIGN_RESULT_REWRITTEN": CodeInfo(
        Area.FOREIGN, W, "published result is not the sealed one",
        "The digest of the sealed result comes out for another record than the published result.",
        "compare the published result with the record that is bound",
    ),
    "FOREIGN_VERIFICATION_ASSERTED": CodeInfo(
        Area.FOREIGN, W, "document vouches for itself",
        "A receipt carries booleans that say it was verified. Whoever edits the receipt edits them too.",
        "ignore them and verify the quote",
    ),
    "FOREIGN_VERIFICATION_DENIED": CodeInfo(
        Area.FOREIGN, E, "document says that it was not verified",
        "A receipt carries booleans that say whether it was verified, and one of them is false.",
        "whoever published it knew, or edited it: verify the quote, and ask",
    ),
    "FOREIGN_VERSION": CodeInfo(
        Area.FOREIGN, W, "receipt of an unknown version",
        "A receipt says that it is of a version that is not known here, and was read as one of the known version.",
        "its fields may mean something else: get a release that knows the version, or ask who wrote it",
        ExitCode.NOT_CHECKED,
    ),
    "FOREIGN_VERIFIER_REFUSES": CodeInfo(
        Area.FOREIGN, W, "refused by its own verifier",
        "The timestamp has an offset where this family's own verifier reads a trailing Z only: it accepts no such "
        "receipt.",
        "a gate that uses that verifier lets nothing through, or is switched off",
    ),
    "FOREIGN_ENCLAVE_FAILED": CodeInfo(
        Area.FOREIGN, E, "sealed output is no verdict",
        "What the enclave printed, and sealed, holds no JSON object.",
        "the receipt seals a failure: it vouches for no figure",
    ),
    "FOREIGN_SEALED_VERDICT": CodeInfo(
        Area.FOREIGN, E, "sealed verdict contradicts the published one",
        "The output that the enclave sealed says something else than the record that was published.",
        "the published verdict is not what the receipt vouches for",
    ),
    "FOREIGN_SEALED_BARS": CodeInfo(
        Area.FOREIGN, E, "sealed bars are not the published ones",
        "The enclave judged by other bars than those that the published result states.",
        "the receipt vouches for a gate that was not the one published",
    ),
    "FOREIGN_CONTRADICTION": CodeInfo(
        Area.FOREIGN, E, "records contradict one another",
        "Two records of one run give different values for the same field.",
        "at most one of them is right; prefer the one that the binding table calls bound",
    ),
    "FOREIGN_COMMIT": CodeInfo(
        Area.FOREIGN, E, "commits differ",
        "A short commit in one record is not a prefix of the commit in another: it names other code.",
        "the figures may belong to either; treat the run as unattributed",
    ),
    "FOREIGN_DERIVED": CodeInfo(
        Area.FOREIGN, E, "derived figure does not follow",
        "A figure cannot be had from the figures beside it, not even allowing for their rounding.",
        "recompute it, and ask which of the figures was edited",
    ),
    "FOREIGN_IMPOSSIBLE": CodeInfo(
        Area.FOREIGN, E, "value that cannot be",
        "A record states what nothing can measure, or a verdict that contradicts itself: a share outside of 0 and 1, a "
        "speed below 0 or none, a part of more than the whole, a pass that is refused, a tier that does not pass.",
        "do not use the record; ask what wrote it",
    ),
    "FOREIGN_PRECISION_LOST": CodeInfo(
        Area.FOREIGN, W, "precision lost between copies",
        "One record holds a rounded copy of what another holds in full.",
        "use the fuller value, and never compare the two at a threshold",
    ),
    "FOREIGN_PRECISION_FEIGNED": CodeInfo(
        Area.FOREIGN, W, "precision feigned",
        "A rounded value is printed with more digits than it has, and compared with an exact one.",
        "compare values of equal precision",
    ),
    "FOREIGN_BLANK_COPY": CodeInfo(
        Area.FOREIGN, W, "left blank in one record",
        "One record leaves blank what another record of the same run states.",
        "the value rests on a single record",
    ),
    "FOREIGN_NOT_COMPARED": CodeInfo(
        Area.FOREIGN, W, "said in words that are not compared",
        "Two records give one fact in words of which some name no day, or no architecture, that is known here.",
        "hold them against one another by hand; nothing was concluded from them",
    ),
    "FOREIGN_FIELD_ABSENT": CodeInfo(
        Area.FOREIGN, W, "record lacks a field",
        "A row, a receipt or a result lacks a field that nearly all others carry.",
        "ask why this record is different",
    ),
    "FOREIGN_UNLISTED": CodeInfo(
        Area.FOREIGN, E, "run not listed",
        "A run has its own folder and is missing from the ledger or the index.",
        "a listing that can leave runs out cannot show that nothing was left out",
    ),
    "FOREIGN_ROW_WITHOUT_RUN": CodeInfo(
        Area.FOREIGN, E, "listed run is not there",
        "A ledger line, an index row or a log names a run that has no folder.",
        "its records were removed or never published",
    ),
    "FOREIGN_ROW_REPEATED": CodeInfo(
        Area.FOREIGN, E, "run listed twice",
        "A ledger or an index lists one run more than once.",
        "see both rows",
    ),
    "FOREIGN_FILE_MISSING": CodeInfo(
        Area.FOREIGN, W, "file missing",
        "A run lacks a file that most runs of this log have, or most runs lack a receipt or a result.",
        "what that file would show could not be checked",
    ),
    "FOREIGN_INDEX_ORDER": CodeInfo(
        Area.FOREIGN, E, "index and ledger disagree on the order",
        "The index lists the runs neither in the ledger's order nor in its reverse.",
        "one of the two was edited",
    ),
    "FOREIGN_TIME_ORDER": CodeInfo(
        Area.FOREIGN, E, "ledger out of time order",
        "A ledger line claims an earlier time than the line before it.",
        "a line was inserted, moved or given another time",
    ),
    "FOREIGN_TIME_COLLATERAL": CodeInfo(
        Area.FOREIGN, E, "time outside the collateral",
        "A receipt's timestamp lies outside the period for which its own collateral was issued.",
        "the timestamp or the collateral belongs to another run",
    ),
    "FOREIGN_EDITED_IN_PLACE": CodeInfo(
        Area.FOREIGN, E, "record edited in place",
        "A row of a log that is said to be append-only carries something that was only known after it was written.",
        "rows of this log can change: keep your own copy",
    ),
    "FOREIGN_SUPERSEDED_BY_OLDER": CodeInfo(
        Area.FOREIGN, E, "superseded by an older run",
        "A row is said to be superseded by a run that was measured before it.",
        "nothing was measured again: an earlier result was put back",
    ),
    "FOREIGN_TWO_MEANINGS": CodeInfo(
        Area.FOREIGN, W, "one field, two metrics",
        "One field name stands for different quantities in different records of the log.",
        "never compare or plot the field without the field that tells which",
    ),
    "FOREIGN_TIER_BASIS": CodeInfo(
        Area.FOREIGN, E, "tier basis contradicts the credit",
        "The record says that the tier was anchored to the reference, yet the credit is not the anchored figure.",
        "another term bound: see the rule that was in force",
    ),
    "FOREIGN_GUARD_UNMEASURED": CodeInfo(
        Area.FOREIGN, W, "guard passed without a measurement",
        "A guard is recorded as passed although neither its measurement nor its baseline is there.",
        "read it as not checked",
    ),
    "FOREIGN_FIELD_MISFILLED": CodeInfo(
        Area.FOREIGN, W, "field filled with something else",
        "A field holds a value that belongs to another field.",
        "do not use it",
    ),
    "FOREIGN_PROVENANCE_EMPTY": CodeInfo(
        Area.FOREIGN, W, "provenance left empty",
        "A field that should say what ran, on what, is empty.",
        "the run cannot be repeated from this record",
    ),
    "FOREIGN_CLOCKS_UNPINNED": CodeInfo(
        Area.FOREIGN, W, "clocks not pinned",
        "The receipt records that GPU clocks were not pinned.",
        "compare speeds only with runs of the same session",
    ),
    "FOREIGN_CLOCK_UNPUBLISHED": CodeInfo(
        Area.FOREIGN, W, "clock reading not published",
        "The record says that wall-clock time bounded the speed, and no record holds the reading.",
        "the bound cannot be checked: read the speed as self-reported",
    ),
    "FOREIGN_CLOCK_WRONG_METRIC": CodeInfo(
        Area.FOREIGN, W, "clock bound of another metric",
        "A prefill speed is said to be bounded by wall-clock time in a log whose clock lines time decode only.",
        "read the speed as self-reported",
    ),
    "FOREIGN_MISSING_FOR_RESCORE": CodeInfo(
        Area.FOREIGN, W, "missing for a re-score",
        "A figure that a tier rule needs is in no record of the run.",
        "it has to come from a history table, and the verdict says so",
    ),
    "FOREIGN_SAME_COMMIT": CodeInfo(
        Area.FOREIGN, W, "commit measured more than once",
        "Several runs of the log are of the same commit.",
        "see whether their figures and labels agree",
    ),
    "FOREIGN_SAME_RECEIPT": CodeInfo(
        Area.FOREIGN, E, "receipts share an identity",
        "Several receipts have the same quote, the same random nonce, or the same id and all that the quote covers, so "
        "one seal stands for several runs.",
        "at most one of them was sealed for its own run",
    ),
    "FOREIGN_ID_REPEATED": CodeInfo(
        Area.FOREIGN, N, "one id or nonce, several seals",
        "Receipts have the same id because they sealed the same output, or the same nonce because it is the digest of "
        "one commit, model and seed; what else their quotes cover differs, so each was sealed for itself.",
        "name these receipts by the digests of their bytes",
    ),
    "FOREIGN_BUILD_DIFFERS": CodeInfo(
        Area.FOREIGN, W, "one commit, several builds",
        "Runs of one commit have different build digests.",
        "the build is not reproducible, or a build directory was reused",
    ),
    "FOREIGN_BUILD_SHARED": CodeInfo(
        Area.FOREIGN, W, "several commits, one build",
        "Runs of different commits have the same build digest: at least one of them did not run its own code.",
        "see whether the commits differ in what is built",
    ),
    "FOREIGN_WEIGHTS_CHANGED": CodeInfo(
        Area.FOREIGN, W, "weights fingerprint changed",
        "The fingerprint of the weights moved while the recorded model digest stayed the same.",
        "the digest was not recomputed, or the weights were replaced",
    ),
    "FOREIGN_EVIDENCE_REPEATED": CodeInfo(
        Area.FOREIGN, N, "same evidence in several runs",
        "Runs of different commits carry digit-identical parity figures.",
        "right if the change touched no arithmetic; otherwise the figures were copied",
    ),
    "FOREIGN_BOUND_DIGEST": CodeInfo(
        Area.FOREIGN, N, "pinned digest changed",
        "The digest of the enclave's image takes several values over the log. It cannot be recomputed, only pinned.",
        "ask the log's operator for the image of each value",
    ),
    "FOREIGN_ENCLAVE_CHANGED": CodeInfo(
        Area.FOREIGN, W, "enclave measured differently",
        "A quote's measurements are not those of the quote before: other firmware, another image, or an edited quote.",
        "pin the measurements that you have accepted; who made the quote is not checked here",
    ),
    "FOREIGN_SCORER_COMMIT": CodeInfo(
        Area.FOREIGN, W, "scorer commit cannot be right",
        "The commit recorded for the scoring scripts contradicts other runs: it goes back, differs within one round, "
        "or names a scorer whose other records have other fields.",
        "do not take the rule in force from this field",
    ),
    "FOREIGN_LOG_SHARED": CodeInfo(
        Area.FOREIGN, N, "one log text for several runs",
        "Several runs carry byte-identical log text, that of their whole round.",
        "count such logs once",
    ),
    "FOREIGN_LOG_SILENT": CodeInfo(
        Area.FOREIGN, E, "log does not know the run",
        "The log text in a run's folder does not say that this run was published.",
        "the log belongs to another run",
    ),
    "FOREIGN_LOG_COUNT": CodeInfo(
        Area.FOREIGN, E, "log's own count is wrong",
        "A round log's closing line counts another number of published runs than the log shows.",
        "lines were removed or added",
    ),
    "FOREIGN_FAILURE_UNRECORDED": CodeInfo(
        Area.FOREIGN, W, "failure without a record",
        "A log shows a measurement that failed or was refused, and no ledger line says so.",
        "a ledger of successes shows less than was tried",
    ),
    "FOREIGN_REFUSED_THEN_PUBLISHED": CodeInfo(
        Area.FOREIGN, W, "refused in one log, published in another",
        "A commit was refused by the harness in one round and published as a run in another.",
        "see what was changed in between: a threshold, the box or nothing",
    ),
    "FOREIGN_OVERRIDE_UNRECORDED": CodeInfo(
        Area.FOREIGN, W, "override not in the record",
        "A log shows that the harness ran with overridden settings; the receipt and the result do not.",
        "the figure cannot be repeated from its record",
    ),
    "FOREIGN_REGRESSION_PUBLISHED": CodeInfo(
        Area.FOREIGN, E, "regression in the log, pass in the record",
        "The log calls a run an accuracy regression that blocks it; the published record passes it with a tier.",
        "the published tier is not the outcome of the round",
    ),
    "FOREIGN_MERGED_WITHOUT_GAIN": CodeInfo(
        Area.FOREIGN, E, "merged as a gain that it is not",
        "The log merges a run as a verified gain although its figure does not beat the frontier it was measured "
        "against.",
        "see the round's log",
    ),
    "FOREIGN_TIER": CodeInfo(
        Area.FOREIGN, E, "tier in the log contradicts the record",
        "The log says that another tier was applied to a run than the one its record publishes.",
        "one of the two was derived from something else",
    ),
    "FOREIGN_TIER_HISTORY": CodeInfo(
        Area.FOREIGN, E, "earlier tier contradicts the ledger",
        "The log removes a tier from a change that is not the tier the ledger had published for it.",
        "a tier was changed outside the ledger",
    ),
    "FOREIGN_PIN_GAP": CodeInfo(
        Area.FOREIGN, W, "pin moved unseen",
        "A frontier pin has another value than the last log left it with, and no log shows the change.",
        "ask what moved it: a hand edit leaves no trace here",
    ),
    "FOREIGN_FRONTIER_UNMEASURED": CodeInfo(
        Area.FOREIGN, W, "frontier beyond every measurement",
        "An advance claims a frontier above every speed that a run of the log had measured by its date. A frontier "
        "that is raised by relative gains can come to that, and is then no speed of any machine.",
        "never compare it with a measured speed; ask what gain was put on which frontier",
    ),
    "FOREIGN_ADVANCE_UNPROVED": CodeInfo(
        Area.FOREIGN, W, "advance without a proof",
        "A line that records an advance of the frontier names no run as its proof, and was held against none.",
        "ask for the run that it rests on", ExitCode.NOT_CHECKED,
    ),
    "FOREIGN_RECEIPT_GONE": CodeInfo(
        Area.FOREIGN, W, "receipt named and not there",
        "A result or a row of a listing says that the run has a receipt, and the run's folder holds none. Whatever it "
        "would be checked for is counted as not checked.",
        "ask for the receipt: without it nothing binds what the run's other records say", ExitCode.NOT_CHECKED,
    ),
    "FOREIGN_LEDGER_EMPTY": CodeInfo(
        Area.FOREIGN, W, "ledger that lists nothing",
        "A ledger.jsonl is there, and no line of it names a run or records an advance of the frontier. Which of the "
        "two it listed nobody can tell, so no run is missed in it, and nothing was held against it.",
        "ask for the ledger: what it said of runs or of the frontier is held against nothing", ExitCode.NOT_CHECKED,
    ),
}
# fmt: on
