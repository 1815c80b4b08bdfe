"""A made-up Intel, to try attestations on: python made_up_intel.py DIR.

Writes a trust directory (root and TCB signing certificate), a trust policy, and a bundle of a run that was attested by
a made-up platform under that root: quote and collateral are genuine by those certificates and by no others. Written
from Intel's published formats and docs/attestation.md, without the product. Every part can be made wrong on purpose:
the tests do. The keys are derived from small numbers and worth nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

NOW = datetime(2026, 6, 1, tzinfo=UTC)
AT = int(NOW.timestamp())
FMSPC, PCE_ID = bytes.fromhex("00a06f050000"), b"\0\0"
QE_SIGNER = "dc" * 32
SGX = "1.2.840.113741.1.13.1"
FLAGS = {"dynamic": b"\x00", "cached": b"\x00", "smt": b"\x00"}


def key(number: int, curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    """A private key that is always the same."""
    return ec.derive_private_key(number, curve or ec.SECP256R1())


def sign(private: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    """R and s, 32 bytes each."""
    numbers = decode_dss_signature(private.sign(data, ec.ECDSA(SHA256(), deterministic_signing=True)))
    return b"".join(number.to_bytes(32, "big") for number in numbers)


def point(private: ec.EllipticCurvePrivateKey) -> bytes:
    """Both coordinates of a public key."""
    return private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:]


def der(tag: int, contents: bytes) -> bytes:
    """One DER element."""
    if len(contents) < 0x80:
        return bytes((tag, len(contents))) + contents
    size = (len(contents).bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + len(contents).to_bytes(size, "big") + contents


def identifier(dotted: str) -> bytes:
    """A DER object identifier."""
    first, second, *rest = map(int, dotted.split("."))
    out = bytearray()
    for arc in (first * 40 + second, *rest):
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(arc & 0x7F | 0x80)
        out += bytes(reversed(groups))
    return der(0x06, bytes(out))


def pair(name: str, value: bytes) -> bytes:
    """A value of the SGX extension under its number."""
    return der(0x30, identifier(f"{SGX}.{name}") + value)


def integer(number: int) -> bytes:
    """A DER integer."""
    return der(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def sgx_extension(components: tuple[int, ...], pce_svn: int, flags: dict[str, bytes] | None) -> bytes:
    """What a PCK certificate says of its platform."""
    tcb = b"".join(pair(f"2.{n}", integer(svn)) for n, svn in enumerate(components, start=1))
    tcb += pair("2.17", integer(pce_svn)) + pair("2.18", der(0x04, bytes(components)))
    parts = [
        pair("1", der(0x04, bytes(16))),
        pair("2", der(0x30, tcb)),
        pair("3", der(0x04, PCE_ID)),
        pair("4", der(0x04, FMSPC)),
        pair("5", der(0x0A, b"\x01")),
    ]
    if flags is not None:
        listed = b"".join(pair(f"7.{n}", der(0x01, value)) for n, value in enumerate(flags.values(), start=1))
        parts += [pair("6", der(0x04, bytes(16))), pair("7", der(0x30, listed))]
    return der(0x30, b"".join(parts))


def name(common: str) -> x509.Name:
    """A distinguished name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


@dataclass
class World:
    """What Intel and a platform are like; change an attribute to make it wrong."""

    components: tuple[int, ...] = (9,) * 16
    pce_svn: int = 11
    flags: dict[str, bytes] | None = field(default_factory=lambda: dict(FLAGS))
    root_key: int = 11
    top: dict[str, Any] = field(default_factory=dict)
    authority: dict[str, Any] = field(default_factory=dict)
    leaf: dict[str, Any] = field(default_factory=dict)
    signer: dict[str, Any] = field(default_factory=dict)
    revoked_pck: tuple[int, ...] = ()
    revoked_root: tuple[int, ...] = ()
    lists: dict[str, Any] = field(default_factory=dict)
    tcb: dict[str, Any] = field(default_factory=dict)
    levels: list[dict[str, Any]] = field(default_factory=list)
    module_levels: list[dict[str, Any]] = field(default_factory=list)
    identity: dict[str, Any] = field(default_factory=dict)
    body: dict[int, bytes] = field(default_factory=dict)
    enclave: dict[int, bytes] = field(default_factory=dict)
    module: bytes = bytes((5, 1, 10))

    # -- certificates ---------------------------------------------------------------------------------------------

    def certificate(
        self,
        subject: str,
        public: ec.EllipticCurvePublicKey | Any,
        issuer: str,
        signing: ec.EllipticCurvePrivateKey,
        **changes: Any,
    ) -> x509.Certificate:
        """A certificate; ``changes`` says what is unusual about it."""
        how: dict[str, Any] = {
            "serial": int.from_bytes(hashlib.sha256(subject.encode()).digest()[:8], "big") >> 1,
            "first": datetime(2026, 1, 1, tzinfo=UTC),
            "last": datetime(2033, 1, 1, tzinfo=UTC),
            "ca": False, "depth": None, "key_cert_sign": False, "digital_signature": True, "more": (), "usage": True,
        } | changes  # fmt: skip
        usage = x509.KeyUsage(
            digital_signature=how["digital_signature"], content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=how["key_cert_sign"],
            crl_sign=how["key_cert_sign"], encipher_only=False, decipher_only=False,
        )  # fmt: skip
        builder = (
            x509.CertificateBuilder(name(issuer), name(subject), public, how["serial"], how["first"], how["last"])
            .add_extension(x509.BasicConstraints(ca=how["ca"], path_length=how["depth"]), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        )
        if how["usage"]:
            builder = builder.add_extension(usage, critical=True)
        for extension, critical in how["more"]:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(signing, SHA256(), ecdsa_deterministic=True)

    @property
    def root(self) -> x509.Certificate:
        """The root certificate."""
        private = key(self.root_key)
        how = {"ca": True, "depth": 1, "key_cert_sign": True, "digital_signature": False} | self.top
        return self.certificate("Made-up SGX Root CA", private.public_key(), "Made-up SGX Root CA", private, **how)

    @property
    def platform_authority(self) -> x509.Certificate:
        """The authority that signs PCK certificates."""
        how = {"ca": True, "depth": 0, "key_cert_sign": True, "digital_signature": False} | self.authority
        return self.certificate(
            "Made-up PCK Platform CA", key(12).public_key(), "Made-up SGX Root CA", key(self.root_key), **how
        )

    @property
    def pck(self) -> x509.Certificate:
        """The platform's certificate."""
        own = sgx_extension(self.components, self.pce_svn, self.flags)
        sgx = x509.UnrecognizedExtension(x509.ObjectIdentifier(SGX), self.leaf.get("extension", own))
        how = {"more": ((sgx, False),)} | {k: v for k, v in self.leaf.items() if k not in ("extension", "public")}
        public = self.leaf.get("public", key(13).public_key())
        return self.certificate("Made-up PCK Certificate", public, "Made-up PCK Platform CA", key(12), **how)

    @property
    def tcb_signer(self) -> x509.Certificate:
        """The certificate that signs TCB info and QE identity."""
        return self.certificate(
            "Made-up TCB Signing", key(14).public_key(), "Made-up SGX Root CA", key(self.root_key), **self.signer
        )

    def anchors(self, *names: str) -> tuple[tuple[str, bytes], ...]:
        """The auditor's trust directory."""
        files = {"root": self.root, "tcb_signing": self.tcb_signer}
        chosen = names or ("root", "tcb_signing")
        return tuple((f"{file}.pem", files[file].public_bytes(Encoding.PEM)) for file in chosen)

    # -- collateral -----------------------------------------------------------------------------------------------

    def revocation_list(self, issuer: str, number: int, serials: tuple[int, ...]) -> bytes:
        """A list, DER."""
        how: dict[str, Any] = {
            "first": datetime(2026, 5, 20, tzinfo=UTC), "last": datetime(2026, 6, 20, tzinfo=UTC), "more": (),
            "issuer": issuer, "key": number,
        } | self.lists  # fmt: skip
        builder = x509.CertificateRevocationListBuilder(name(how["issuer"]), how["first"], how["last"])
        builder = builder.add_extension(x509.CRLNumber(1), critical=False).add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key(number).public_key()), critical=False
        )
        for extension, critical in how["more"]:
            builder = builder.add_extension(extension, critical=critical)
        for serial in serials:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder(serial, datetime(2026, 5, 21, tzinfo=UTC)).build()
            )
        return builder.sign(key(how["key"]), SHA256(), ecdsa_deterministic=True).public_bytes(Encoding.DER)

    def tcb_info(self) -> bytes:
        """What Intel says about platforms of this kind."""
        level = {"tcb": tcb(), "tcbDate": "2026-01-01T00:00:00Z", "tcbStatus": "UpToDate"}
        own = {"tcb": {"isvsvn": 5}, "tcbDate": "2026-01-01T00:00:00Z", "tcbStatus": "UpToDate"}
        seam = {"mrsigner": "00" * 48, "attributes": "00" * 8, "attributesMask": "FF" * 8}
        value = {
            "id": "TDX", "version": 3, "issueDate": "2026-05-25T00:00:00Z", "nextUpdate": "2026-06-25T00:00:00Z",
            "fmspc": FMSPC.hex(), "pceId": PCE_ID.hex(), "tcbType": 0, "tcbEvaluationDataNumber": 19,
            "tdxModule": seam,
            "tdxModuleIdentities": [{"id": "TDX_01", **seam, "tcbLevels": self.module_levels or [own]}],
            "tcbLevels": self.levels or [level],
        } | self.tcb  # fmt: skip
        return json.dumps(value, separators=(",", ":")).encode()

    def qe_identity(self) -> bytes:
        """What Intel says about its quoting enclave."""
        value = {
            "id": "TD_QE", "version": 2, "issueDate": "2026-05-26T00:00:00Z", "nextUpdate": "2026-06-26T00:00:00Z",
            "tcbEvaluationDataNumber": 19, "miscselect": "00000000", "miscselectMask": "FFFFFFFF",
            "attributes": "11" + "00" * 15, "attributesMask": "FBFFFFFFFFFFFFFF0000000000000000",
            "mrsigner": QE_SIGNER, "isvprodid": 2,
            "tcbLevels": [{"tcb": {"isvsvn": 4}, "tcbDate": "2026-01-01T00:00:00Z", "tcbStatus": "UpToDate"}],
        } | self.identity  # fmt: skip
        return json.dumps(value, separators=(",", ":")).encode()

    def answers(self) -> dict[str, bytes]:
        """What Intel's service answers, by address."""
        info, identity = self.tcb_info(), self.qe_identity()
        base = "https://example.org"
        return {
            f"{base}/sgx/certification/v4/pckcrl?ca=platform&encoding=der": self.revocation_list(
                "Made-up PCK Platform CA", 12, self.revoked_pck
            ),
            f"{base}/tdx/certification/v4/qe/identity": b'{"enclaveIdentity":%b,"signature":"%b"}'
            % (identity, sign(key(14), identity).hex().encode()),
            f"{base}/tdx/certification/v4/tcb?fmspc=00a06f050000": b'{"tcbInfo":%b,"signature":"%b"}'
            % (info, sign(key(14), info).hex().encode()),
            f"{base}/IntelSGXRootCA.der": self.revocation_list("Made-up SGX Root CA", self.root_key, self.revoked_root),
        }

    def collateral(self) -> bytes:
        """Everything that a quote is checked with, as this project keeps it."""
        items = {address: base64.b64encode(data).decode() for address, data in self.answers().items()}
        return json.dumps({"items": items, "urls": sorted(items), "v": 1}).encode()

    def collateral_of_library(self) -> dict[str, str]:
        """The same as the second checker writes it."""
        info, identity = self.tcb_info(), self.qe_identity()
        lists = [data.hex() for address, data in self.answers().items() if "crl" in address or "Root" in address]
        return {
            "pck_crl": lists[0], "root_ca_crl": lists[1], "tcb_info": info.decode(),
            "tcb_info_signature": sign(key(14), info).hex(), "qe_identity": identity.decode(),
            "qe_identity_signature": sign(key(14), identity).hex(), "pck_crl_issuer_chain": "",
        }  # fmt: skip

    # -- quotes ---------------------------------------------------------------------------------------------------

    def quote(self, report_data: bytes = bytes(64), padding: bytes = b"", chain: bytes | None = None) -> bytes:
        """A quote with these report data."""
        head = bytearray(632)
        head[0:8] = bytes.fromhex("0400020081000000")
        head[12:28] = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
        head[48 : 48 + len(self.module)] = self.module
        head[64:112] = b"\xab" * 48
        head[168:176] = bytes.fromhex("0000001000000000")
        head[176:184] = bytes.fromhex("e702060000000000")
        head[184:232] = b"\xc1" * 48
        head[376:424] = b"\x0a" * 48
        head[568:632] = report_data
        attestation, pck = key(15), key(13)
        enclave = bytearray(384)
        enclave[0:16] = bytes(self.components)
        enclave[48:64] = bytes.fromhex("1500000000000000e700000000000000")
        enclave[128:160] = bytes.fromhex(QE_SIGNER)
        enclave[256:260] = bytes.fromhex("02000600")
        authentication = bytes(range(32))
        enclave[320:352] = hashlib.sha256(point(attestation) + authentication).digest()
        for part, changes in ((head, self.body), (enclave, self.enclave)):
            for at, value in changes.items():
                part[at : at + len(value)] = value
        if chain is None:
            certificates = (self.pck, self.platform_authority, self.root)
            chain = b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)
        certification = (
            bytes(enclave) + sign(pck, bytes(enclave)) + (32).to_bytes(2, "little") + authentication
            + (5).to_bytes(2, "little") + len(chain).to_bytes(4, "little") + chain
        )  # fmt: skip
        data = (
            sign(attestation, bytes(head)) + point(attestation) + (6).to_bytes(2, "little")
            + len(certification).to_bytes(4, "little") + certification
        )  # fmt: skip
        return bytes(head) + len(data).to_bytes(4, "little") + data + padding


def tcb(sgx: int = 8, tdx: int = 0, pce: int = 11) -> dict[str, Any]:
    """A level's TCB: every component the same."""
    return {
        "sgxtcbcomponents": [{"svn": sgx}] * 16,
        "pcesvn": pce,
        "tdxtcbcomponents": [{"svn": tdx}] * 16,
    }


def days(count: int) -> int:
    """Seconds since 1970 of so many days after the quote was made."""
    return int((NOW + timedelta(days=count)).timestamp())


def attested_bundle(world: World) -> tuple[bytes, list[bytes]]:
    """``bundle.json`` of a run that ran in a trust domain, and its artifacts."""
    node = {
        "name": "made-up-node", "cpu": "made up", "logical_cores": 8, "memory_bytes": 1 << 34, "os": "Linux",
        "kernel": "6.12", "accelerators": [],
    }  # fmt: skip
    series = {
        "metric": "decode", "unit": "token", "actor": "subject", "observer": "controller", "context": 128,
        "context_filled": 128, "batch": 1, "processes": 1, "warmup": 1, "inputs": "fresh", "cache": "none",
        "samples": [{"start_ns": n * 10**9, "duration_ns": 8 * 10**8 + n, "count": 16} for n in range(5)],
    }  # fmt: skip
    log = b"what the engine said\n"
    bare: dict[str, Any] = {
        "role": "candidate", "model": None, "round": None, "parity": None, "memory": [], "flags": [],
        "expert_load": None, "timing": [series],
        "subject": {"name": "made-up-engine", "version": "1", "source": None, "build_sha256": None},
        "machine": {"node": node, "software": [], "command": ["engine"], "started": NOW.strftime("%Y-%m-%dT%H:%M:%SZ")},
        "artifacts": [artifact("stderr.txt", log, "text/plain")],
        "tee": {"kind": "tdx", "report_data_sha256": None},
    }  # fmt: skip
    domain = hashlib.sha256(b"k3-ledger/report-data/1\n").digest()
    report_data = hashlib.sha256(spell_bundle(bare)).digest() + domain
    quote, collateral = world.quote(report_data), world.collateral()
    evidence = [
        artifact("tdx-quote.bin", quote, "application/octet-stream"),
        artifact("tdx-collateral.json", collateral, "application/json"),
    ]
    tee = {"kind": "tdx", "report_data_sha256": hashlib.sha256(report_data).hexdigest()}
    return spell_bundle({**bare, "tee": tee, "artifacts": [*bare["artifacts"], *evidence]}), [log, quote, collateral]


def spell_bundle(body: dict[str, Any]) -> bytes:
    """The canonical form of a bundle."""
    bundle = {"body": body, "kind": "run", "schema": "k3-ledger/bundle/1"}
    return json.dumps(bundle, sort_keys=True, separators=(",", ":")).encode()


def artifact(called: str, data: bytes, media_type: str) -> dict[str, Any]:
    """How a receipt names a file."""
    digest = hashlib.sha256(data).hexdigest()
    return {"name": called, "sha256": digest, "size": len(data), "media_type": media_type}


POLICY = """\
require = ["attestations"]

[attestation]
trust_dir = "certificates"      # beside this file: your own, never out of a ledger
kinds = ["tdx"]                 # every run receipt must carry a quote
at = "receipt"                  # or "now", or a time

[attestation.measurements]
mrtd = ["{mrtd}"]
"""


def main() -> None:
    """Write everything into the folder that the command line names."""
    folder, world = Path(sys.argv[1]), World()
    (folder / "certificates").mkdir(parents=True)
    for called, data in world.anchors():
        (folder / "certificates" / called).write_bytes(data)
    (folder / "trust.toml").write_text(POLICY.format(mrtd="c1" * 48))
    bundle, files = attested_bundle(world)
    (folder / "bundle" / "blobs").mkdir(parents=True)
    (folder / "bundle" / "bundle.json").write_bytes(bundle)
    for data in files:
        (folder / "bundle" / "blobs" / hashlib.sha256(data).hexdigest()).write_bytes(data)


if __name__ == "__main__":
    main()
