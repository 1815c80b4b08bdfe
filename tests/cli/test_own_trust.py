"""The document never picks its own check: nothing that is to be trusted comes out of what it judges."""

from __future__ import annotations

import shutil

import pytest

from tests.ledgers import ROOT, small_ledger


def pem_of_root() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return Ed25519PublicKey.from_public_bytes(ROOT.public).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def speed(tmp_path):
    folder = tmp_path / "speed"
    folder.mkdir()
    small_ledger().write(folder)
    (tmp_path / "outside.toml").write_text(f'root_public_key = "{ROOT.public.hex()}"\n')
    (tmp_path / "outside.pem").write_bytes(pem_of_root())
    shutil.copy(tmp_path / "outside.toml", folder / "trust.toml")
    shutil.copy(tmp_path / "outside.pem", folder / "root.pub.pem")
    (tmp_path / "link.toml").symlink_to("speed/trust.toml")
    (tmp_path / "into").symlink_to("speed")
    return folder


def refused(done) -> bool:
    return (done.code, done.out, "nothing vouches for itself" in " ".join(done.err.replace("│", " ").split())) == (
        2,
        "",
        True,
    )


SUBJECTS = ("speed", "speed/ledger.jsonl", "into", "file://{}/speed", "file://localhost{}/speed")
INSIDE = {"--trust": ("speed/trust.toml", "link.toml", "into/trust.toml"), "--root-key": ("speed/root.pub.pem",)}
OUTSIDE = {"--trust": "outside.toml", "--root-key": "outside.pem"}


@pytest.mark.parametrize("option", INSIDE)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_lies_in_a_ledger_is_nobodys_trust_in_it(run, speed, tmp_path, subject, option) -> None:
    subject = subject.format(tmp_path)
    for place in INSIDE[option]:
        assert refused(run("verify", subject, option, place)), place
    done = run("verify", subject, option, OUTSIDE[option])
    assert (done.code, "not authenticated" in done.out) == (0, False)


@pytest.mark.parametrize("option", INSIDE)
def test_no_command_judges_a_ledger_by_what_it_brings_along(run, speed, tmp_path, option) -> None:
    commands = {"bundle pack": ("bundle", "pack", "speed", "--out", "b.tar")}
    if option == "--trust":
        run("keygen", "k.pem")
        commands["export"] = ("export", "speed", "--dsse", "--key", "k.pem", "--out", "e.jsonl")
    else:
        commands["trust init"] = ("trust", "init", "speed", "--out", "new.toml")
    for words in commands.values():
        for place in INSIDE[option]:
            assert refused(run(*words, option, place)), words
        assert run(*words, option, OUTSIDE[option]).code == 0, words


def test_a_root_key_in_words_is_no_place(run, speed, monkeypatch) -> None:
    monkeypatch.chdir(speed)
    assert run("verify", ".", "--root-key", ROOT.public.hex()).code == 0


def test_a_policy_is_not_written_into_the_ledger_that_it_is_about(run, speed, tmp_path) -> None:
    (speed / "trust.toml").unlink()
    for out in ("speed/trust.toml", "into/deeper.toml"):
        assert refused(run("trust", "init", "speed", "--out", out))
    assert not (speed / "trust.toml").exists()
    assert run("trust", "init", "speed", "--out", "trust.toml").code == 0


def test_a_folder_of_certificates_in_a_ledger_is_refused_where_the_policy_names_it(run, speed, tmp_path) -> None:
    text = f'root_public_key = "{ROOT.public.hex()}"\n[attestation]\ntrust_dir = "speed/certificates"\n'
    (speed / "certificates").mkdir()
    (tmp_path / "tee.toml").write_text(text)
    assert refused(run("verify", "speed", "--trust", "tee.toml"))
    (tmp_path / "tee.toml").write_text(text.replace("speed/certificates", "certificates"))
    (tmp_path / "certificates").mkdir()
    assert not refused(run("verify", "speed", "--trust", "tee.toml")), "an empty folder is another matter"


def test_a_foreign_log_brings_no_certificates_of_its_own(run, tmp_path) -> None:
    (tmp_path / "log" / "certificates").mkdir(parents=True)
    (tmp_path / "log" / "key").write_text(ROOT.public.hex())
    assert refused(run("audit", "polaris", "log", "--trust-dir", "log/certificates"))
    assert refused(run("audit", "polaris", "log", "--public-key", "log/key"))
    assert not refused(run("audit", "polaris", "log", "--public-key", ROOT.public.hex()))
