from __future__ import annotations

import copy
import errno
import os
import pickle
import stat
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, x25519

from k3_ledger.ledger.core.ed25519 import check_signature
from k3_ledger.ledger.writer.keys import MAX_KEY_FILE, PublicKey, Signer, keygen, load_public_key, load_signer
from k3_ledger.schemas.errors import KeyFileError, LedgerError, StoreError
from k3_ledger.schemas.findings import Code
from tests.ledger.writer.support import FailingDisk

if TYPE_CHECKING:
    from pathlib import Path

NO = serialization.NoEncryption()


def put(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def pem(key: object, form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, NO)  # type: ignore[attr-defined,no-any-return]


def test_keygen_makes_a_private_key_that_signs_and_its_public_half(tmp_path):
    public = keygen(tmp_path / "root.pem")
    signer = load_signer(tmp_path / "root.pem")
    assert load_public_key(str(tmp_path / "root.pub.pem")) == public == PublicKey(signer.public_key)
    assert load_public_key(public.hex) == public
    assert signer.key_id == public.key_id
    check_signature(public.raw, b"message", signer.sign(b"message"))


def test_key_file_is_for_its_owner_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        keygen(tmp_path / "k.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "k.pem").stat().st_mode) == 0o600


def test_keygen_twice_keeps_the_first_key(tmp_path):
    keygen(tmp_path / "k.pem")
    first = (tmp_path / "k.pem").read_bytes()
    with pytest.raises(KeyFileError) as caught:
        keygen(tmp_path / "k.pem")
    assert caught.value.code is Code.KEY_FILE_EXISTS
    assert (tmp_path / "k.pem").read_bytes() == first


def test_keygen_leaves_nothing_when_the_public_half_is_taken(tmp_path):
    (tmp_path / "k.pub.pem").write_bytes(b"somebody's")
    with pytest.raises(KeyFileError):
        keygen(tmp_path / "k.pem")
    assert [p.name for p in tmp_path.iterdir()] == ["k.pub.pem"]
    assert (tmp_path / "k.pub.pem").read_bytes() == b"somebody's"


def test_keygen_does_not_follow_a_symbolic_link(tmp_path):
    (tmp_path / "k.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileError):
        keygen(tmp_path / "k.pem")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("call", "nth"),
    [("open", 0), ("write", 0), ("fsync", 0), ("open", 1), ("write", 1), ("fsync", 1), ("open", 2), ("fsync", 2)],
)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_keygen_leaves_nothing_on_a_failing_disk(tmp_path, call, nth, error):
    disk = FailingDisk()
    disk.fail(call, error, nth=nth)
    with pytest.raises(StoreError):
        keygen(tmp_path / "k.pem", disk=disk)
    assert list(tmp_path.iterdir()) == []


def test_keygen_reports_the_first_failure_when_cleaning_up_fails_too(tmp_path):
    disk = FailingDisk()
    disk.fail("write", errno.ENOSPC)
    disk.fail("unlink", errno.EIO)
    with pytest.raises(StoreError) as caught:
        keygen(tmp_path / "k.pem", disk=disk)
    assert caught.value.code is Code.DISK_FULL


def test_keygen_in_a_missing_directory_names_it(tmp_path):
    with pytest.raises(StoreError) as caught:
        keygen(tmp_path / "missing" / "k.pem")
    assert caught.value.code is Code.STORE_MISSING
    assert "missing" in str(caught.value)


def test_passphrase_opens_the_key_and_nothing_else_does(tmp_path):
    public = keygen(tmp_path / "k.pem", b"correct horse")
    assert load_signer(tmp_path / "k.pem", b"correct horse").public_key == public.raw
    for wrong in (None, b"", b"battery staple"):
        with pytest.raises(KeyFileError) as caught:
            load_signer(tmp_path / "k.pem", wrong)
        assert caught.value.code is Code.KEY_FILE_PASSPHRASE


def test_passphrase_for_a_plain_key_is_refused(tmp_path):
    keygen(tmp_path / "k.pem")
    with pytest.raises(KeyFileError) as caught:
        load_signer(tmp_path / "k.pem", b"x")
    assert caught.value.code is Code.KEY_FILE_PASSPHRASE


def test_empty_passphrase_is_misuse(tmp_path):
    with pytest.raises(ValueError, match="empty passphrase"):
        keygen(tmp_path / "k.pem", b"")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620, 0o604, 0o666])
def test_key_file_that_others_can_touch_is_refused_with_the_cure(tmp_path, mode):
    keygen(tmp_path / "k.pem")
    (tmp_path / "k.pem").chmod(mode)
    with pytest.raises(KeyFileError) as caught:
        load_signer(tmp_path / "k.pem")
    assert caught.value.code is Code.KEY_FILE_EXPOSED
    assert f"chmod 600 {tmp_path / 'k.pem'}" in caught.value.finding.advice
    assert caught.value.finding.found == f"mode {mode:04o}"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (bytes(119), "NUL"),
        (b"\0 \n", "NUL"),
        (os.urandom(119), "not PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "damaged"),
        (b"-----BEGIN PRIVATE KEY-----\n", "damaged"),
        (b"x" * (MAX_KEY_FILE + 1), "longer than"),
    ],
)  # fmt: skip
def test_damaged_key_file_gets_one_clear_error(tmp_path, data, words):
    with pytest.raises(KeyFileError, match=words) as caught:
        load_signer(put(tmp_path / "k.pem", data))
    assert caught.value.code is Code.KEY_FILE_MALFORMED
    assert str(tmp_path / "k.pem") in str(caught.value)


def test_damaged_encrypted_key_file_says_it_may_be_the_passphrase(tmp_path):
    keygen(tmp_path / "k.pem", b"secret")
    lines = (tmp_path / "k.pem").read_bytes().split(b"\n")
    put(tmp_path / "k.pem", b"\n".join([lines[0], lines[1][:-8], *lines[-2:]]))
    with pytest.raises(KeyFileError, match="damaged"):
        load_signer(tmp_path / "k.pem", b"secret")


@pytest.mark.parametrize(
    ("key", "form", "found"),
    [
        (ec.generate_private_key(ec.SECP256R1()), serialization.PrivateFormat.PKCS8, "EC"),
        (x25519.X25519PrivateKey.generate(), serialization.PrivateFormat.PKCS8, "X25519"),
        (
            ed25519.Ed25519PrivateKey.generate(),
            serialization.PrivateFormat.OpenSSH,
            "-----BEGIN OPENSSH PRIVATE KEY-----",
        ),
        (
            ec.generate_private_key(ec.SECP256R1()),
            serialization.PrivateFormat.TraditionalOpenSSL,
            "-----BEGIN EC PRIVATE KEY-----",
        ),
    ],
    ids=["EC", "X25519", "OpenSSH", "SEC1"],
)
def test_other_kinds_of_private_keys_are_named_and_refused(tmp_path, key, form, found):
    with pytest.raises(KeyFileError) as caught:
        load_signer(put(tmp_path / "k.pem", pem(key, form)))
    assert caught.value.code is Code.KEY_FILE_MALFORMED
    assert found in str(caught.value.finding.found)


def test_public_half_given_as_private_key_is_told_apart(tmp_path):
    keygen(tmp_path / "k.pem")
    put(tmp_path / "k.pub.pem", (tmp_path / "k.pub.pem").read_bytes())
    with pytest.raises(KeyFileError, match="holds a public key"):
        load_signer(tmp_path / "k.pub.pem")


def test_private_half_given_as_public_key_is_told_apart(tmp_path):
    keygen(tmp_path / "k.pem")
    with pytest.raises(KeyFileError, match="holds no public key"):
        load_public_key(str(tmp_path / "k.pem"))


def test_missing_key_file_and_directory_and_pipe_are_named(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path, words in [("missing", "cannot open"), (".", "not a regular file"), ("pipe", "not a regular file")]:
        with pytest.raises(KeyFileError, match=words) as caught:
            load_signer(tmp_path / path)
        assert caught.value.code is Code.KEY_FILE_UNREADABLE


def test_public_key_of_another_kind_and_damaged_one_are_refused(tmp_path):
    spki = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    other = put(tmp_path / "x.pem", x25519.X25519PrivateKey.generate().public_key().public_bytes(*spki))
    damaged = put(tmp_path / "d.pem", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    for path, words in [(other, "not an Ed25519 key"), (damaged, "damaged")]:
        with pytest.raises(KeyFileError, match=words):
            load_public_key(str(path))


def test_public_key_of_low_order_is_never_taken(tmp_path):
    identity = b"\1" + bytes(31)
    with pytest.raises(LedgerError) as caught:
        load_public_key(identity.hex())
    assert caught.value.code is Code.PUBLIC_KEY_LOW_ORDER


def test_signer_keeps_its_secret_to_itself():
    signer = Signer(bytes(range(32)))
    assert bytes(range(32)).hex() not in repr(signer)
    assert signer.key_id in repr(signer)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            attempt(signer)
    with pytest.raises(ValueError, match="32 bytes"):
        Signer(b"short")
