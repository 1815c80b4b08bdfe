"""Ed25519 key files: making them once, loading them carefully, signing with them.

Private keys are PKCS#8 PEM, mode 0600, with an optional passphrase; public keys are SPKI PEM beside them. OpenSSL (the
``cryptography`` package) reads and writes the files; libsodium makes the signatures, as it makes the verdicts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import nacl.bindings
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from k3_ledger.ledger.core.ed25519 import check_public_key
from k3_ledger.ledger.writer.disk import Disk, storage_errors, sync_directory, write_all
from k3_ledger.schemas.errors import KeyFileError
from k3_ledger.schemas.findings import Code
from k3_ledger.schemas.outcomes import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_KEY_FILE = 16_384
"""A key file is some hundred bytes; anything larger than this many bytes is something else."""

_HEX64 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A raw 32-byte Ed25519 public key that passed the checks of enrolment."""

    raw: bytes

    def __post_init__(self) -> None:
        check_public_key(self.raw)

    @property
    def hex(self) -> str:
        """Lower-case hexadecimal of the raw key."""
        return self.raw.hex()

    @property
    def key_id(self) -> str:
        """Lower-case hexadecimal SHA-256 of the raw key: how entries name it."""
        return hashlib.sha256(self.raw).hexdigest()

    def pem(self) -> bytes:
        """SPKI PEM, as other tools read it."""
        return ed25519.Ed25519PublicKey.from_public_bytes(self.raw).public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )


class Signer:
    """A private key in memory. It signs bytes and gives nothing else away."""

    __slots__ = ("_secret", "key_id", "public_key")

    def __init__(self, seed: bytes) -> None:
        if len(seed) != 32:
            raise ValueError(f"an Ed25519 seed has 32 bytes, got {len(seed)}")
        public, self._secret = nacl.bindings.crypto_sign_seed_keypair(seed)
        self.public_key: bytes = public
        """Raw 32 bytes."""
        self.key_id: str = hashlib.sha256(public).hexdigest()
        """Lower-case hexadecimal SHA-256 of the raw public key."""

    def sign(self, message: bytes) -> bytes:
        """64-byte Ed25519 signature (RFC 8032)."""
        return nacl.bindings.crypto_sign(message, self._secret)[:64]

    def __repr__(self) -> str:
        return f"Signer({self.key_id})"

    def __reduce__(self) -> str:
        raise TypeError("a private key is not pickled")


def public_path(path: Path) -> Path:
    """Where the public half of a key file stands: ``root.pem`` has ``root.pub.pem`` beside it."""
    stem = path.name.removesuffix(".pem")
    return path.with_name(f"{stem}.pub.pem")


def keygen(path: Path, passphrase: bytes | None = None, *, disk: Disk | None = None) -> PublicKey:
    """Make a key pair: the private half at ``path`` (mode 0600), the public half beside it.

    Both files are created, never overwritten; both and their names are durable when this returns, and neither stays
    when it fails.

    Raises:
        KeyFileError: one of the two files exists already.
        StoreError: the file system refused.
    """
    if passphrase == b"":
        raise ValueError("an empty passphrase protects nothing; leave it out")
    disk = disk or Disk()
    private = ed25519.Ed25519PrivateKey.generate()
    public = PublicKey(private.public_key().public_bytes_raw())
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    with contextlib.ExitStack() as undo:
        _create(disk, path, pem, 0o600, undo)
        _create(disk, public_path(path), public.pem(), 0o644, undo)
        with storage_errors(path.parent, "make the key files durable", output=True):
            sync_directory(disk, path.parent)
        undo.pop_all()
    return public


def _create(disk: Disk, path: Path, data: bytes, mode: int, undo: contextlib.ExitStack) -> None:
    with storage_errors(path, "write the key file", output=True):
        try:
            fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise _key_error(
                Code.KEY_FILE_EXISTS, path, f"{'a directory' if path.is_dir() else 'a file'} stands there already",
                hint="choose another path; a key that is overwritten is lost for good",
            ) from None  # fmt: skip
        undo.callback(_remove, disk, path)
        try:
            write_all(disk, fd, data)
            disk.fsync(fd)
        finally:
            disk.close(fd)


def _remove(disk: Disk, path: Path) -> None:
    with contextlib.suppress(OSError):
        disk.unlink(path)


def load_signer(path: Path, passphrase: bytes | None = None) -> Signer:
    """Load a private key file.

    Raises:
        KeyFileError: missing, readable by others than its owner, not PKCS#8 PEM, not Ed25519, encrypted and no (or
            the wrong) passphrase given, or a passphrase given for a file that has none.
    """
    data = _read(path, private=True)
    label = _pem_label(path, data)
    if label in ("PUBLIC KEY", "CERTIFICATE"):
        raise _key_error(
            Code.KEY_FILE_MALFORMED, path, "this file holds a public key, not a private one",
            expected="-----BEGIN PRIVATE KEY-----", found=f"-----BEGIN {label}-----",
            hint="give the private half; it stands beside the .pub.pem file where keygen made it",
        )  # fmt: skip
    encrypted = label == "ENCRYPTED PRIVATE KEY"
    if label != "PRIVATE KEY" and not encrypted:
        raise _key_error(
            Code.KEY_FILE_MALFORMED, path, "this private key is not in PKCS#8 form",
            expected="-----BEGIN PRIVATE KEY-----", found=f"-----BEGIN {label}-----",
            hint="make a key with `k3-ledger keygen`; keys of ssh and gpg are not read",
        )  # fmt: skip
    if encrypted and not passphrase:
        raise _key_error(
            Code.KEY_FILE_PASSPHRASE, path, "the key file is encrypted and no passphrase was given",
            hint="give --passphrase-file, or run on a terminal and type it",
        )  # fmt: skip
    if passphrase and not encrypted:
        raise _key_error(
            Code.KEY_FILE_PASSPHRASE, path, "a passphrase was given for a key file that is not encrypted",
            hint="leave the passphrase out, and check that this is the key you meant",
        )  # fmt: skip
    try:
        key = serialization.load_pem_private_key(data, passphrase)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if encrypted:
            raise _key_error(
                Code.KEY_FILE_PASSPHRASE, path, "the passphrase does not open the key file, or the file is damaged",
                hint="type the passphrase again; if it is right, restore the file from a copy",
            ) from error  # fmt: skip
        raise _damaged(path) from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise _key_error(
            Code.KEY_FILE_MALFORMED, path, "this is not an Ed25519 key",
            expected="Ed25519", found=type(key).__name__.lstrip("_").removesuffix("PrivateKey"),
            hint="make a key with `k3-ledger keygen`",
        )  # fmt: skip
    return Signer(key.private_bytes_raw())


def load_public_key(spec: str) -> PublicKey:
    """A public key from 64 hexadecimal digits, or from the path of an SPKI PEM file.

    Raises:
        KeyFileError: the file cannot be read or holds no Ed25519 public key.
        LedgerError: the key is one that enrolment refuses (low order, outside the prime-order subgroup).
    """
    if _HEX64.fullmatch(spec):
        return PublicKey(bytes.fromhex(spec))
    path = Path(spec)
    data = _read(path, private=False)
    label = _pem_label(path, data)
    if label != "PUBLIC KEY":
        raise _key_error(
            Code.KEY_FILE_MALFORMED, path, "this file holds no public key",
            expected="-----BEGIN PUBLIC KEY----- or 64 hexadecimal digits", found=f"-----BEGIN {label}-----",
            hint="give the .pub.pem file that stands beside the private key",
        )  # fmt: skip
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _damaged(path) from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise _key_error(
            Code.KEY_FILE_MALFORMED, path, "this is not an Ed25519 key",
            expected="Ed25519", found=type(key).__name__.lstrip("_").removesuffix("PublicKey"),
            hint="give the public half of a key that `k3-ledger keygen` made",
        )  # fmt: skip
    return PublicKey(key.public_bytes_raw())


def _read(path: Path, *, private: bool) -> bytes:
    with _opened(path) as fd:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            raise _key_error(
                Code.KEY_FILE_UNREADABLE, path, "the key is not a regular file",
                hint="copy the key into a file of its own, mode 0600",
            )  # fmt: skip
        if private and mode & 0o077:
            raise _key_error(
                Code.KEY_FILE_EXPOSED, path, "others than its owner can read or write the private key",
                expected="mode 0600", found=f"mode {stat.S_IMODE(mode):04o}",
                hint=f"chmod 600 {path} (copy it first where modes are not kept); rotate it if others may have read it",
            )  # fmt: skip
        try:
            data = os.read(fd, MAX_KEY_FILE + 1)
        except OSError as error:
            raise _key_error(
                Code.KEY_FILE_UNREADABLE, path, "cannot read the key file", found=os.strerror(error.errno or 0),
                hint="restore the file from a copy; keep two",
            ) from error  # fmt: skip
    if len(data) > MAX_KEY_FILE:
        raise _key_error(
            Code.KEY_FILE_MALFORMED, path, f"the file is longer than {MAX_KEY_FILE:,} bytes, so it is no key file"
        )
    return data


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        # A pipe or a device must not make the command hang: it is refused after opening.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _key_error(
            Code.KEY_FILE_UNREADABLE, path, "cannot open the key file",
            found=os.strerror(error.errno or 0), hint="check the path and who may read it",
        ) from error  # fmt: skip
    try:
        yield fd
    finally:
        os.close(fd)


def _pem_label(path: Path, data: bytes) -> str:
    if not data.strip(b"\0 \t\r\n"):
        what = "holds nothing but NUL bytes (a write that a power cut interrupted)" if b"\0" in data else "is empty"
        raise _key_error(
            Code.KEY_FILE_MALFORMED, path, f"the key file {what}", hint="restore the file from a copy; keep two"
        )
    found = re.search(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----", data)
    if found is None:
        raise _key_error(
            Code.KEY_FILE_MALFORMED, path, "the file is not PEM", expected="-----BEGIN …-----",
            hint="give a key file that `k3-ledger keygen` made",
        )  # fmt: skip
    return found[1].decode()


def _damaged(path: Path) -> KeyFileError:
    return _key_error(
        Code.KEY_FILE_MALFORMED, path, "the key file is damaged: its label is right, its content does not parse",
        hint="restore the file from a copy",
    )  # fmt: skip


def _key_error(
    code: Code, path: Path, message: str, *,
    expected: str | None = None, found: str | None = None, hint: str | None = None,
) -> KeyFileError:  # fmt: skip
    return KeyFileError(code, message, position=Position(source=str(path)), expected=expected, found=found, hint=hint)
