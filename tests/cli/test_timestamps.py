"""RFC 3161 tokens by an authority that these tests make with openssl: what holds, what does not, what is unknown."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from math import ceil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from k3_ledger.cli import app, main
from k3_ledger.schemas.errors import LedgerError
from k3_ledger.schemas.findings import Code
from tests.ledgers import ROOT, Builder, sign_head, small_ledger
from tests.static_host import lay_out, ledger_files

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

pytest.importorskip("rfc3161_client", reason="the extra k3-ledger[time] is not installed")
OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(
    OPENSSL is None, reason="openssl, which plays the timestamp authority, is not installed"
)

CONFIG = """[tsa]
default_tsa = t
[t]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:2, millisecs:500
ess_cert_id_alg = sha256
signer_digest = sha256
"""
EXTENSIONS = "basicConstraints=CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=critical,timeStamping\n"


def k3(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def code(result: Result) -> Code | None:
    return result.exception.code if isinstance(result.exception, LedgerError) else None


@dataclass
class Authority:
    """A root and a certificate that signs tokens."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "ca.pem"

    def openssl(self, *arguments: object) -> None:
        assert OPENSSL is not None
        subprocess.run([OPENSSL, *map(str, arguments)], check=True, capture_output=True, cwd=self.folder, timeout=60)

    def make(self, name: str) -> Authority:
        self.folder.mkdir()
        for key in ("ca.key", "tsa.key"):
            self.openssl("ecparam", "-genkey", "-name", "prime256v1", "-out", key)
        usage = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"]
        self.openssl(
            "req", "-x509", "-new", "-key", "ca.key", "-days", 9, "-subj", f"/CN={name} root", "-out", "ca.pem", *usage
        )
        self.openssl("req", "-new", "-key", "tsa.key", "-subj", f"/CN={name}", "-out", "tsa.csr")
        (self.folder / "extensions").write_text(EXTENSIONS)
        (self.folder / "serial").write_text("01\n")
        (self.folder / "config").write_text(CONFIG.format(folder=self.folder))
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", 9, "-extfile", "extensions"]
        self.openssl("x509", "-req", "-in", "tsa.csr", *signing, "-out", "tsa.pem")
        return self

    def answer(self, query: Path, out: Path) -> Path:
        self.openssl("ts", "-reply", "-config", "config", "-queryfile", query, "-out", out)
        return out

    def query(self, data: bytes, *options: str) -> Path:
        (self.folder / "data").write_bytes(data)
        self.openssl("ts", "-query", "-data", "data", "-out", "query", *(options or ("-sha256", "-cert")))
        return self.folder / "query"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tsa") / "one").make("Test authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tsa") / "two").make("Stranger")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ledger = small_ledger()
    files = ledger_files(ledger) | {"checkpoints/000000000007.note": sign_head(ledger.lines[:7])}
    return lay_out(tmp_path / "ledger", files)


@pytest.fixture
def trust(tmp_path: Path, authority: Authority) -> Path:
    path = tmp_path / "trust.toml"
    path.write_text(f'# mine\nroot_public_key = "{ROOT.public.hex()}"\n')
    for _ in range(2):
        result = k3("trust", "add", "timestamps", authority.root, "--trust", path)
        assert "1 timestamp authorities believed" in result.stdout, result.exception
    assert "# mine" in path.read_text()
    return path


def stamped(folder: Path, authority: Authority, name: str | None = None) -> Path:
    """Ask for a timestamp of the newest head and keep the answer."""
    query, answer = folder.parent / "query.tsq", folder.parent / "answer.tsr"
    assert k3("timestamp", "request", folder, "--out", query).exit_code == 0
    result = k3("timestamp", "add", folder, authority.answer(query, answer), *(("--name", name) if name else ()))
    assert result.exit_code == 0, result.exception
    return folder / "timestamps" / (f"000000000010-{name}.tsr" if name else "000000000010.tsr")


def verified(folder: Path, *more: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(k3("verify", folder, "--json", *more).stdout)
    return found


def test_a_head_is_stamped_and_its_entries_existed_by_then(folder: Path, authority: Authority, trust: Path) -> None:
    stamped(folder, authority)
    report = verified(folder, "--trust", trust, "--require", "timestamps")
    assert report["exit_code"] == 0
    (bound,) = report["timestamped"]
    assert (bound["entries_below"], bound["according_to"]) == (10, ["CN=Test authority"])
    assert "existed    entries below 10 by " in k3("verify", folder, "--trust", trust).stdout


def test_the_accuracy_of_the_clock_counts_against_the_bound(authority: Authority, tmp_path: Path) -> None:
    from k3_ledger.cli.tokens import parse_token, read_token
    from k3_ledger.verify.policy import parse_certificate

    data = authority.answer(authority.query(b"text"), tmp_path / "t").read_bytes()
    root = parse_certificate(authority.root.read_text())
    assert root is not None
    said = int(parse_token(data).tst_info.gen_time.timestamp())
    assert read_token(data, [root]).latest == said + 3, "2.5 seconds, rounded up"


ACCURACIES = {
    "none": ("", 0),
    "a microsecond": ("accuracy = microsecs:1\n", 1),
    "a day": ("accuracy = secs:86400\n", 86_400),
    "a day and more": ("accuracy = secs:86400, millisecs:1\n", None),
    "two days": ("accuracy = secs:172800\n", None),
    "68 years": ("accuracy = secs:2147483647\n", None),
}


@pytest.mark.parametrize(
    ("seconds", "vague"),
    [(None, False), (0, False), (86_400, False)]
    + [(seconds, True) for seconds in (86_401, 10**12, 2**80, -1, -(2**80))],
)
def test_no_accuracy_that_a_token_can_spell_gives_a_time_that_is_none(seconds: int | None, vague: bool) -> None:
    from k3_ledger.cli.tokens import _latest

    moment = datetime(2026, 6, 1, tzinfo=UTC)
    accuracy = SimpleNamespace(seconds=seconds, millis=None, micros=None)
    info = SimpleNamespace(gen_time=moment, accuracy=accuracy)
    if vague:
        with pytest.raises(LedgerError) as caught:
            _latest(info, b"")
        assert caught.value.code is Code.TIMESTAMP_VAGUE
    else:
        assert _latest(info, b"") == int(moment.timestamp()) + (seconds or 0)
    last = SimpleNamespace(gen_time=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), accuracy=accuracy)
    if seconds != 0 and seconds is not None:
        with pytest.raises(LedgerError):
            _latest(last, b"")


@pytest.mark.parametrize("name", ACCURACIES)
def test_a_stamp_whose_clock_may_be_anywhere_bounds_nothing_and_meets_no_demand(
    folder: Path, authority: Authority, trust: Path, name: str
) -> None:
    line, later = ACCURACIES[name]
    usual = (authority.folder / "config").read_text()
    (authority.folder / "config").write_text(usual.replace("accuracy = secs:2, millisecs:500\n", line))
    try:
        query, answer = folder.parent / "query.tsq", folder.parent / "answer.tsr"
        assert k3("timestamp", "request", folder, "--out", query).exit_code == 0
        (folder / "timestamps").mkdir()
        authority.answer(query, answer).rename(folder / "timestamps" / "000000000010.tsr")
    finally:
        (authority.folder / "config").write_text(usual)
    plain, demanded = verified(folder, "--trust", trust), verified(folder, "--trust", trust, "--require", "timestamps")
    if later is None:
        assert (plain["exit_code"], demanded["exit_code"], plain["timestamped"]) == (0, 4, [])
        assert [found["code"] for found in plain["findings"]] == ["K3L-TIMESTAMP-VAGUE"]
    else:
        assert (plain["exit_code"], demanded["exit_code"], len(plain["timestamped"])) == (0, 0, 1)


@pytest.mark.parametrize("fraction", ["1", "5", "500001", "999999999"])
def test_a_fraction_of_a_second_counts_against_the_bound(authority: Authority, tmp_path: Path, fraction: str) -> None:
    from k3_ledger.cli.tokens import _latest, parse_token

    data = authority.answer(authority.query(b"text"), tmp_path / "t").read_bytes()
    info = parse_token(data).tst_info
    plain = info.gen_time.strftime("%Y%m%d%H%M%SZ").encode()
    assert data.count(b"\x18\x0f" + plain) == 1
    spelled = plain[:-1] + b"." + fraction.encode() + b"Z"
    precise = data.replace(b"\x18\x0f" + plain, b"\x18" + bytes([len(spelled)]) + spelled)
    exact = Fraction(f"0.{fraction}") + Fraction("2.5")
    assert _latest(info, precise) == int(info.gen_time.timestamp()) + ceil(exact)


def test_what_the_authority_rounds_is_read_from_its_own_bytes(authority: Authority, tmp_path: Path) -> None:
    from k3_ledger.cli.tokens import _latest, parse_token

    (authority.folder / "precise").write_text(
        CONFIG.format(folder=authority.folder).replace("accuracy", "clock_precision_digits = 6\naccuracy")
    )
    query = authority.query(b"text")
    authority.openssl("ts", "-reply", "-config", "precise", "-queryfile", query, "-out", tmp_path / "t")
    data = (tmp_path / "t").read_bytes()
    info = parse_token(data).tst_info
    found = re.search(rb"\x18.[0-9]{14}([.][0-9]+)Z", data)
    exact = Fraction("2.5") + (Fraction(found[1].decode()) if found else 0)
    assert _latest(info, data) == int(info.gen_time.timestamp()) + ceil(exact)


def test_a_stamp_that_was_granted_with_modifications_holds(authority: Authority, tmp_path: Path) -> None:
    """RFC 3161 section 2.4.2: a token comes with the status 0 and with 1; with any other there is none to take."""
    from k3_ledger.cli.tokens import read_token
    from k3_ledger.verify.policy import parse_certificate

    token = authority.answer(authority.query(b"text"), tmp_path / "t").read_bytes()
    root = parse_certificate(authority.root.read_text())
    assert root is not None
    roots = [root]
    at = token.index(b"\x30\x03\x02\x01\x00") + 4
    assert at < 12
    held = read_token(token, roots)
    assert read_token(token[:at] + b"\x01" + token[at + 1 :], roots) == held
    for status in (2, 3, 4, 5, 0x7F, 0xFF):
        with pytest.raises(LedgerError):
            read_token(token[:at] + bytes([status]) + token[at + 1 :], roots)


def test_a_stranger_s_stamp_is_not_checked(folder: Path, stranger: Authority, trust: Path) -> None:
    stamped(folder, stranger)
    report = verified(folder, "--trust", trust)
    assert (report["exit_code"], list(report["counts"])) == (0, ["K3L-TIMESTAMP-UNTRUSTED"])
    assert verified(folder, "--trust", trust, "--require", "timestamps")["exit_code"] == 4
    assert verified(folder)["steps"][13]["not_checked"] == 1


def test_a_stamp_outlives_the_growth_of_the_ledger(folder: Path, authority: Authority, trust: Path) -> None:
    stamped(folder, authority)
    ledger = Builder((folder / "ledger.jsonl").read_bytes().splitlines(keepends=True))
    (folder / "checkpoints" / "000000000010.note").write_bytes(ledger.head())
    ledger.runs(4)
    lay_out(folder, ledger_files(ledger))
    (bound,) = verified(folder, "--trust", trust)["timestamped"]
    assert bound["entries_below"] == 10
    (folder / "checkpoints" / "000000000010.note").unlink()
    assert list(verified(folder, "--trust", trust)["counts"]) == ["K3L-TIMESTAMP-ELSEWHERE"]


def test_flipped_bits_never_give_an_earlier_time_or_another_digest(authority: Authority, tmp_path: Path) -> None:
    from k3_ledger.cli.tokens import read_token
    from k3_ledger.verify.policy import parse_certificate

    root = parse_certificate(authority.root.read_text())
    assert root is not None
    good = authority.answer(authority.query(b"text"), tmp_path / "t").read_bytes()
    meant = read_token(good, [root])
    codes = set()
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 1 << at % 8
        try:
            assert read_token(bytes(data), [root]) == meant, "padding that nobody signs"
        except LedgerError as error:
            codes.add(error.code)
    assert codes == {Code.TIMESTAMP_BAD, Code.TIMESTAMP_UNREADABLE, Code.TIMESTAMP_UNTRUSTED}


def test_a_stamp_by_a_changed_certificate_is_a_stranger_s(authority: Authority, tmp_path: Path) -> None:
    from k3_ledger.cli.tokens import read_token
    from k3_ledger.verify.policy import parse_certificate

    data = authority.answer(authority.query(b"text"), tmp_path / "t").read_bytes()
    der = parse_certificate(authority.root.read_text())
    assert der is not None
    read_token(data, [der])
    # openssl makes no token with such a certificate, so the flag is turned in it, which breaks its signature.
    wrong = data.replace(bytes.fromhex("06082b06010505070308"), bytes.fromhex("06082b06010505070301"))
    assert wrong != data
    with pytest.raises(LedgerError) as caught:
        read_token(wrong, [der])
    assert caught.value.code is Code.TIMESTAMP_UNTRUSTED


@pytest.mark.parametrize("options", [("-sha512", "-cert"), ("-sha256",)], ids=["sha512", "no certificate"])
def test_other_kinds_of_tokens_are_not_read(authority: Authority, options: tuple[str, ...], tmp_path: Path) -> None:
    from k3_ledger.cli.tokens import read_token
    from k3_ledger.verify.policy import parse_certificate

    root = parse_certificate(authority.root.read_text())
    assert root is not None
    data = authority.answer(authority.query(b"text", *options), tmp_path / "t").read_bytes()
    with pytest.raises(LedgerError) as caught:
        read_token(data, [root])
    assert caught.value.code in (Code.TIMESTAMP_UNREADABLE, Code.TIMESTAMP_UNTRUSTED)


def test_what_is_no_token_or_no_root_is_said(folder: Path, authority: Authority, trust: Path, tmp_path: Path) -> None:
    from k3_ledger.cli.tokens import read_token
    from k3_ledger.verify.timestamps import MAX_TOKEN

    for data in (b"", b"text", bytes(MAX_TOKEN + 1), authority.root.read_bytes()):
        (tmp_path / "t").write_bytes(data[:MAX_TOKEN])
        assert code(k3("timestamp", "add", folder, tmp_path / "t")) is Code.TIMESTAMP_UNREADABLE
        with pytest.raises(LedgerError):
            read_token(data, [b"no certificate"])
    (tmp_path / "t").write_bytes(b"text")
    assert k3("trust", "add", "timestamps", tmp_path / "t", "--trust", trust).exit_code == 2
    other = authority.answer(authority.query(b"text"), tmp_path / "t")
    assert code(k3("timestamp", "add", folder, other)) is Code.TIMESTAMP_ELSEWHERE
    with pytest.raises(LedgerError) as caught:
        read_token(other.read_bytes(), [b"no certificate"])
    assert caught.value.code is Code.TIMESTAMP_UNREADABLE


def test_stamps_of_several_authorities_stand_beside_one_another(
    folder: Path, authority: Authority, stranger: Authority, trust: Path
) -> None:
    first = stamped(folder, authority)
    again = folder.parent / "answer.tsr"
    assert k3("timestamp", "add", folder, again).exit_code == 0, "the same answer twice is one"
    stranger.answer(folder.parent / "query.tsq", again)
    assert code(k3("timestamp", "add", folder, again)) is Code.STORE_EXISTS
    assert k3("timestamp", "add", folder, again, "--name", "NOT/THIS").exit_code == 2
    assert k3("timestamp", "add", folder, again, "--name", "stranger").exit_code == 0
    assert sorted(path.name for path in first.parent.iterdir()) == ["000000000010-stranger.tsr", "000000000010.tsr"]
    k3("trust", "add", "timestamps", stranger.root, "--trust", trust)
    report = verified(folder, "--trust", trust, "--require", "timestamps")
    assert (report["exit_code"], report["steps"][13]["checked"]) == (0, 2)


@pytest.mark.parametrize("entries", ["all", "4"])
def test_stamps_travel_in_an_offline_bundle(
    folder: Path, authority: Authority, trust: Path, entries: str, tmp_path: Path
) -> None:
    token = stamped(folder, authority)
    assert k3("bundle", "pack", folder, "--entries", entries, "--out", tmp_path / "out").exit_code == 0
    report = verified(tmp_path / "out", "--trust", trust, "--require", "timestamps")
    assert (report["exit_code"], len(report["timestamped"])) == (0, 1)
    good = token.read_bytes()
    token.write_bytes(good[:-5] + b"XXXXX")
    k3("bundle", "pack", folder, "--entries", entries, "--out", tmp_path / "bad")
    report = verified(tmp_path / "bad", "--trust", trust)
    assert (report["exit_code"], list(report["counts"])) == (1, ["K3L-TIMESTAMP-BAD"])


def test_without_the_extra_a_policy_that_needs_it_says_so(
    folder: Path, trust: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rfc3161_client", None)
    monkeypatch.setattr(sys, "argv", ["k3-ledger", "verify", str(folder), "--trust", str(trust)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert 'pip install "k3-ledger[time]"' in capsys.readouterr().err
