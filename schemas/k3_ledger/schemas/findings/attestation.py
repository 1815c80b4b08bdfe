"""Rows of the registry: enclave quotes and tokens."""

from __future__ import annotations

from typing import Final

from k3_ledger.schemas.findings.row import Area, CodeInfo
from k3_ledger.schemas.outcomes import Severity

E, W = Severity.ERROR, Severity.WARNING

# fmt: off
ROWS: Final = {
    # -- attestation -----------------------------------------------------------------------------------------
    "QUOTE_MALFORMED": CodeInfo(
        Area.ATTESTATION, E, "malformed quote",
        "A quote does not have the structure of a version 4 quote of a trust domain.",
        "nothing that hangs on this quote was checked",
    ),
    "QUOTE_CHAIN": CodeInfo(
        Area.ATTESTATION, E, "quote's certificates",
        "The certificates of a quote do not lead, link by link, to a root that the auditor holds.",
        "compare the root in the trust directory with the one that Intel publishes; if it is the same, the "
        "quote is not genuine",
    ),
    "QUOTE_REVOKED": CodeInfo(
        Area.ATTESTATION, E, "revoked certificate",
        "A certificate that a quote stands on is in its issuer's revocation list.",
        "do not trust anything that this platform attests",
    ),
    "QUOTE_SIGNATURE": CodeInfo(
        Area.ATTESTATION, E, "quote's signature",
        "A signature inside a quote does not verify, or the quoting enclave vouches for another key.",
        "the quote was changed after it was made, or put together from several",
    ),
    "QUOTE_COLLATERAL": CodeInfo(
        Area.ATTESTATION, E, "quote's collateral",
        "TCB info, QE identity or a revocation list is malformed, about something else, or not signed by whom "
        "the auditor trusts for it.",
        "fetch the collateral again for the platform of this quote; if it came with the receipt, it was "
        "changed",
    ),
    "QUOTE_EXPIRED": CodeInfo(
        Area.ATTESTATION, E, "outside a period of validity",
        "At the chosen time a certificate, a revocation list or the collateral was not valid yet or not valid "
        "any more.",
        "choose the time that matters: `receipt` asks whether it was valid when it was made, `now` whether it "
        "still is",
    ),
    "QUOTE_ENCLAVE": CodeInfo(
        Area.ATTESTATION, E, "not Intel's enclave",
        "The quoting enclave or the TDX module is not one that Intel's signed collateral describes.",
        "nothing that this platform attests can be relied on",
    ),
    "QUOTE_TCB": CodeInfo(
        Area.ATTESTATION, E, "TCB status not acceptable",
        "The platform reaches no TCB level that Intel knows, or one whose status or advisories the policy "
        "does not accept.",
        "update the platform's firmware, or accept the status in the policy with open eyes",
    ),
    "QUOTE_DEBUG": CodeInfo(
        Area.ATTESTATION, E, "debuggable trust domain",
        "The trust domain was started with debugging allowed: whoever runs the machine can read and change "
        "everything in it.",
        "have the workload run again without debugging",
    ),
    "QUOTE_ATTRIBUTES": CodeInfo(
        Area.ATTESTATION, E, "unsafe attributes of the trust domain",
        "The trust domain was started with attributes that let the host do to it what the quote does not show, or with "
        "reserved ones.",
        "have the workload run again in a domain that cannot be migrated, is bound to no service domain and gets no "
        "exceptions for missing pages",
    ),
    "QUOTE_PLATFORM": CodeInfo(
        Area.ATTESTATION, E, "platform property not allowed",
        "The platform has a property (packages can be added, keys are cached, SMT is on) that the policy does "
        "not allow by name.",
        "allow it by name if that is what you accept: most cloud platforms are dynamic and have SMT on",
    ),
    "QUOTE_PLATFORM_UNSAID": CodeInfo(
        Area.ATTESTATION, W, "platform property not stated",
        "The PCK certificate carries no configuration, or not all of it, so it does not say whether packages can be "
        "added, keys are cached or SMT is on; the policy does not allow these by name.",
        "allow them by name if that is what you accept: a certificate for a platform of one package never says",
    ),
    "QUOTE_MEASUREMENT": CodeInfo(
        Area.ATTESTATION, E, "measurement not pinned",
        "A register of the trust domain has a value that is not among those that the policy pins.",
        "another image, kernel or command line ran; pin the new value once you know what it stands for",
    ),
    "QUOTE_UNPINNED": CodeInfo(
        Area.ATTESTATION, W, "no measurement pinned",
        "The policy pins no register, so a genuine quote only shows that some program ran in some trust domain.",
        "pin the registers of the image that you know: anyone with such a machine gets genuine quotes",
    ),
    "QUOTE_BINDING": CodeInfo(
        Area.ATTESTATION, E, "quote of something else",
        "The report data of a quote are not those of the receipt that carries it.",
        "the quote belongs to another run, or the receipt was changed after it was made",
    ),
    "QUOTE_CHECKERS_DISAGREE": CodeInfo(
        Area.ATTESTATION, E, "two checkers disagree",
        "Two programs that were written apart come to different verdicts about the same quote at the same "
        "time.",
        "report it: one of the two is wrong, and until it is known which, the quote counts as not genuine",
    ),
    "QUOTE_ONE_CHECKER": CodeInfo(
        Area.ATTESTATION, W, "only one checker",
        "The second checker is not installed, so the quote was looked at by one program only and is not "
        "called verified.",
        "pip install 'k3-ledger[tee]'",
    ),
    "QUOTE_NO_ANCHOR": CodeInfo(
        Area.ATTESTATION, W, "no certificate to check with",
        "The trust directory lacks a certificate that the check needs: Intel's SGX root, or the TCB signing "
        "certificate that signs TCB info and QE identity.",
        "put Intel's root and TCB signing certificates as .pem files into a folder of your own and name it as "
        "the trust directory; they never come from the receipt",
    ),
    "QUOTE_NO_COLLATERAL": CodeInfo(
        Area.ATTESTATION, W, "no collateral",
        "A quote comes without TCB info, QE identity and revocation lists, so only its signatures were looked "
        "at.",
        "have the receipt made with collateral: what a platform's state was can only be said with Intel's "
        "word of that time",
    ),
    "QUOTE_MALLEABLE": CodeInfo(
        Area.ATTESTATION, W, "bytes that nothing signs",
        "Bytes stand behind a quote's signature data. They can be changed without any check failing, so one "
        "quote has many spellings.",
        "never identify a quote by the digest of all its bytes",
    ),
    "QUOTE_ADVISORIES": CodeInfo(
        Area.ATTESTATION, W, "security advisories apply",
        "Intel names security advisories that apply to the platform's TCB level.",
        "read them; refuse single ones by name in the policy",
    ),
    "QUOTE_TIME_UNBOUND": CodeInfo(
        Area.ATTESTATION, W, "time that nothing binds",
        "The time at which a quote was judged is the receipt's own word, and the quote does not cover it.",
        "choose a time yourself, or take the periods of the collateral as the bounds",
    ),
    "ATTESTATION_MISSING": CodeInfo(
        Area.ATTESTATION, E, "attestation without evidence",
        "A receipt says that it is attested and does not carry what shows it.",
        "the quote was left out when the bundle was made, or taken away",
    ),
    "ATTESTATION_REPEATED": CodeInfo(
        Area.ATTESTATION, E, "evidence named twice",
        "A receipt names two artifacts as the same piece of evidence, so two verifiers could look at different ones.",
        "have the bundle made again with one quote, one collateral and one answer of an attestation service",
    ),
    "ATTESTATION_UNREADABLE": CodeInfo(
        Area.ATTESTATION, W, "evidence cannot be read",
        "The artifact that holds an attestation is not there or cannot be read, so the attestation was not "
        "checked.",
        "restore the artifact from a copy of the ledger",
    ),
    "ATTESTATION_KIND": CodeInfo(
        Area.ATTESTATION, E, "kind of attestation not accepted",
        "A receipt is attested in another way than the trust policy accepts, or not at all.",
        "trust the receipt for what it is, or accept the kind in the policy",
    ),
    "TOKEN_MALFORMED": CodeInfo(
        Area.ATTESTATION, E, "malformed attestation token",
        "An NVIDIA attestation token is not a token of the form that is understood: ES384, three parts, JSON.",
        "nothing that hangs on this token was checked",
    ),
    "TOKEN_SIGNATURE": CodeInfo(
        Area.ATTESTATION, E, "token's signature",
        "A token's signature does not verify under the key that the auditor holds for it, or a device's token "
        "is not the one that the overall token names.",
        "the token was changed, or was made by somebody else",
    ),
    "TOKEN_EXPIRED": CodeInfo(
        Area.ATTESTATION, E, "token outside its period",
        "At the chosen time a token was not valid yet or not valid any more.",
        "tokens live for about an hour: judge them at receipt time",
    ),
    "TOKEN_REFUSED": CodeInfo(
        Area.ATTESTATION, E, "token reports a failure",
        "The attestation service says that the device's evidence did not hold: as a whole, in one of its checks, "
        "because a certificate is revoked, or because the device is debugged or did not boot securely.",
        "do not trust the device that this token is about",
    ),
    "TOKEN_BINDING": CodeInfo(
        Area.ATTESTATION, E, "token of something else",
        "A token's nonce is not the digest of the receipt that carries it.",
        "the token belongs to another run",
    ),
    "TOKEN_NO_KEY": CodeInfo(
        Area.ATTESTATION, W, "no key to check a token with",
        "The trust directory holds no key of the name that a token gives, so its signature was not checked.",
        "put the attestation service's key set into the trust directory as nvidia-jwks.json",
    ),
    "TOKEN_UNSTATED": CodeInfo(
        Area.ATTESTATION, W, "token silent about the device",
        "A device's token does not say whether the device booted securely, or whether it is debugged. What it says of "
        "measurements stands for neither, so the attestation was not checked.",
        "ask the service for a token of a version that states secboot and dbgstat",
    ),
}
# fmt: on
