"""The second checker: PyPI ``dcap-qvl``, a program by other people, asked about the same bytes at the same time.

Two programs that were written apart and must agree are worth more than either: what one takes and the other refuses is
a finding of its own. The trust anchors are the auditor's for both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k3_ledger.schemas.panics import panics_as_errors

if TYPE_CHECKING:
    from k3_ledger.verify.tee.collateral import Collateral


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the second checker said.

    Attributes:
        accepted: it took the quote as genuine at that time.
        reason: its words when it did not.
        status: TCB status it found.
        advisories: advisories it found, sorted.
        flags: its word on dynamic platform, cached keys and SMT.
        report: fields of the body that it read, hexadecimal, by its own names.
    """

    accepted: bool
    reason: str = ""
    status: str = ""
    advisories: tuple[str, ...] = ()
    flags: tuple[bool | None, bool | None, bool | None] = (None, None, None)
    report: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What both checkers are asked.

    Attributes:
        quote: the quote's bytes.
        collateral: what to check it with.
        issuers: PEM of the PCK certificate's issuers, leaf excluded.
        signer: PEM of the TCB signing certificate and the root.
        root: DER of the auditor's root.
        at: seconds since 1970.
    """

    quote: bytes
    collateral: Collateral
    issuers: str
    signer: str
    root: bytes
    at: int


def ask(question: Question) -> Opinion | None:
    """The second checker's opinion; None when it is not installed (extra ``tee``)."""
    try:
        import dcap_qvl  # noqa: PLC0415 - an extra, and only needed where a quote is
    except ModuleNotFoundError:
        return None
    given = question.collateral
    try:
        collateral = dcap_qvl.QuoteCollateralV3(
            pck_crl_issuer_chain=question.issuers,
            root_ca_crl=given.root_crl,
            pck_crl=given.pck_crl,
            tcb_info_issuer_chain=question.signer,
            tcb_info=given.tcb_info.text.decode(),
            tcb_info_signature=given.tcb_info.signature,
            qe_identity_issuer_chain=question.signer,
            qe_identity=given.qe_identity.text.decode(),
            qe_identity_signature=given.qe_identity.signature,
        )
        with panics_as_errors():
            policy = dcap_qvl.QuotePolicy.claims_only(question.at)
            verifier = dcap_qvl.QuoteVerifier(question.root)
            found = json.loads(verifier.verify_with_policy(question.quote, collateral, question.at, policy).to_json())
    except ValueError as error:  # the one exception that its documentation names, and panics
        return Opinion(accepted=False, reason=str(error)[:200])
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        return Opinion(accepted=False, reason=f"it gave up: {error}"[:200])  # a panic is no verdict, and no acceptance
    pck = found["platform"]["pck"]
    said = {"True": True, "False": False}
    return Opinion(
        accepted=True,
        status=found["tcb"]["status"],
        advisories=tuple(sorted(found["tcb"]["advisory_ids"])),
        flags=(said.get(pck["dynamic_platform"]), said.get(pck["cached_keys"]), said.get(pck["smt_enabled"])),
        report=tuple(sorted(next(iter(found["report"].values())).items())),
    )
