from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3_ledger.ledger.writer import tarball
from k3_ledger.ledger.writer.tarball import Member, list_members
from k3_ledger.schemas.errors import BundleError
from k3_ledger.schemas.findings import Code


def tar(*members: tuple[tarfile.TarInfo, bytes], format: int = tarfile.USTAR_FORMAT, **options) -> bytes:  # noqa: A002
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=format, **options) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def member(name: str, content: bytes = b"x", **fields) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def members(data: bytes) -> dict[str, Member]:
    return list_members(io.BytesIO(data), len(data), "bundle.tar")


def refused(data: bytes) -> BundleError:
    with pytest.raises(BundleError) as caught:
        members(data)
    assert caught.value.code is Code.BUNDLE_TAR
    assert caught.value.finding.position.source == "bundle.tar"
    return caught.value


@pytest.mark.parametrize("size", [1, 100, 511])
def test_a_tar_that_ends_in_a_content_is_refused_from_any_stream(size: int) -> None:
    info, content = member("bundle.json", b"x" * size)
    data = info.tobuf(tarfile.USTAR_FORMAT) + content
    for stream in (io.BytesIO(data), io.BufferedReader(io.BytesIO(data))):
        with pytest.raises(BundleError, match="cut short"):
            list_members(stream, len(data), "bundle.tar")


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("prefix", ["", "./", "folder/"])
def test_regular_files_are_found_whatever_wrote_the_tar(format, prefix):  # noqa: A002
    content = b"y" * 700
    data = tar(
        member(prefix or "x", type=tarfile.DIRTYPE, size=0),
        member(f"{prefix}bundle.json", b"{}", mtime=1.5),
        member(f"{prefix}blobs", b"", type=tarfile.DIRTYPE),
        member(f"{prefix}blobs/{'a' * 64}", content, mtime=1.5),
        format=format,
    )
    found = members(data)
    folder = "folder/" if prefix == "folder/" else ""
    assert set(found) == {f"{folder}bundle.json", f"{folder}blobs/{'a' * 64}"}
    entry = found[f"{folder}blobs/{'a' * 64}"]
    assert data[entry.offset : entry.offset + entry.size] == content


def test_long_name_in_the_posix_prefix_is_read():
    name = "f" * 60 + "/" + "g" * 90
    assert set(members(tar(member(name)))) == {name}


def test_old_format_without_type_is_read():
    data = bytearray(tar(member("a")))
    data[156:157] = b"\0"
    header = bytes(data[:148]) + b" " * 8 + bytes(data[156:512])
    data[148:156] = b"%06o\0 " % sum(header)
    assert set(members(bytes(data))) == {"a"}


@pytest.mark.parametrize("end", [1024, 2048])
def test_a_tar_that_was_cut_short_between_two_members_is_not_a_whole_one(end):
    data = tar(member("a"), member("b"))
    assert "it was cut short" in str(refused(data[:end]))


@pytest.mark.parametrize("zeros", [1, 511, 512, 513, 1023, 1025, 1535, 9000])
def test_a_tar_ends_with_two_blocks_of_zeros_and_in_whole_ones(zeros):
    data = tar(member("a"))[:1024]
    assert "it was cut short" in str(refused(data + bytes(zeros)))


@pytest.mark.parametrize("zeros", [1024, 1536, 9216, tarball.MAX_END])
def test_a_tar_may_end_with_as_many_zeros_as_its_writer_likes(zeros):
    assert set(members(tar(member("a"))[:1024] + bytes(zeros))) == {"a"}


def test_more_zeros_than_a_tar_ends_with_are_not_read_through():
    data = io.BytesIO(tar(member("a"))[:1024])
    with pytest.raises(BundleError, match="more zeros behind its last member"):
        list_members(data, 1 << 60, "bundle.tar")


@pytest.mark.parametrize("zeros", [512, 1024, 9216])
@pytest.mark.parametrize("more", [b"x", bytes(511) + b"x", tar(member("b")), b"\n" * 512], ids=range(4))
def test_bytes_behind_the_end_of_a_tar_are_refused(zeros, more):
    """Two tars that were joined are two members to one reader and one to another."""
    data = tar(member("a"))[:1024] + bytes(zeros) + more
    error = refused(data)
    assert "behind the blocks of zeros that end the tar" in str(error)
    at = error.finding.position.byte_offset
    assert (data[at : at + 1], data[1024:at].strip(b"\0")) == (data[1024:].lstrip(b"\0")[:1], b"")


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("at", ["first", "last"])
@pytest.mark.parametrize("size", [1, 511, 700])
def test_bytes_that_fill_the_block_of_a_member_are_zeros(format, at, size):  # noqa: A002
    info, content = member("a", b"y" * size)
    info.pax_headers = {"comment": "c"} if format == tarfile.PAX_FORMAT else {}
    data = bytearray(tar((info, content), member("b"), format=format))
    end = members(bytes(data))["a"].offset + size
    place = end if at == "first" else -(-end // 512) * 512 - 1
    data[place] = 1
    error = refused(bytes(data))
    assert "behind a member's content" in str(error)
    assert error.finding.position.byte_offset == place


def test_bytes_that_fill_the_block_of_an_extended_header_are_zeros():
    info, content = member("a")
    info.pax_headers = {"comment": "c"}
    data = bytearray(tar((info, content), format=tarfile.PAX_FORMAT))
    data[1023] = 1
    assert refused(bytes(data)).finding.position.byte_offset == 1023


@pytest.mark.parametrize(
    ("program", "options"),
    [
        *(("tar", [one]) for one in ("--format=ustar", "--format=gnu", "--format=pax", "-b1", "-b2048")),
        *(("bsdtar", [one]) for one in ("--format=ustar", "--format=gnutar", "--format=pax", "-b1", "-b2048")),
        ("busybox", []),
    ],
)
def test_what_tar_programs_write_is_read(program, options, tmp_path):
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    (tmp_path / "in" / "blobs").mkdir(parents=True)
    (tmp_path / "in" / "bundle.json").write_bytes(b"{}")
    (tmp_path / "in" / "blobs" / "a").write_bytes(bytes(range(256)) * 5)
    command = [found, "tar"] if program == "busybox" else [found, *options]  # its tar has neither option
    subprocess.run([*command, "-cf", tmp_path / "out.tar", "-C", tmp_path / "in", "."], check=True, timeout=60)
    data = (tmp_path / "out.tar").read_bytes()
    assert set(members(data)) == {"bundle.json", "blobs/a"}
    subprocess.run([*command, "-rf", tmp_path / "out.tar", "-C", tmp_path, "in/bundle.json"], check=False, timeout=60)
    assert "bundle.json" in members((tmp_path / "out.tar").read_bytes())


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd", "../up", "a/../../up", "a//b", "a/./b", ".hidden", "blobs/._x", "a\\b", "c:/x", "été",
        "a b", "a\nb", "..", "./..", "~/x", "-x",
    ],
)  # fmt: skip
def test_name_that_climbs_hides_or_is_not_plain_is_refused(name):
    error = refused(tar(member("bundle.json"), member(name)))
    assert error.finding.position.byte_offset == 1024


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a character device"),
        (tarfile.BLKTYPE, "a block device"),
        (tarfile.FIFOTYPE, "a named pipe"),
        (tarfile.CONTTYPE, "a contiguous file"),
        (tarfile.GNUTYPE_SPARSE, "a sparse file"),
        (b"Z", "type b'Z'"),
    ],
)
def test_link_device_or_sparse_file_is_refused_and_named(kind, words):
    assert words in str(refused(tar(member("x", b"", type=kind, linkname="bundle.json"))))


def test_gnu_long_name_and_global_header_are_refused():
    assert "GNU long name" in str(refused(tar(member("n" * 120), format=tarfile.GNU_FORMAT)))
    assert "global" in str(refused(tar(member("n"), format=tarfile.PAX_FORMAT, pax_headers={"comment": "x"})))


@pytest.mark.parametrize("key", ["path", "linkpath", "size", "GNU.sparse.name"])
def test_extended_header_that_changes_name_or_size_is_refused(key):
    info, content = member("x")
    info.pax_headers = {key: "1"}
    assert key in str(refused(tar((info, content), format=tarfile.PAX_FORMAT)))


def test_large_extended_header_is_refused_before_it_is_read():
    info, content = member("x")
    info.pax_headers = {"comment": "c" * tarball.MAX_PAX}
    assert "size" in str(refused(tar((info, content), format=tarfile.PAX_FORMAT)))


@pytest.mark.parametrize("record", [b"1 a=b\n", b"99 a=b\n", b"6 a=bX", b"no record", b"5 =b\n"])
def test_extended_header_that_does_not_parse_is_refused(record):
    info, content = member("x")
    info.pax_headers = {"comment": "c"}
    data = bytearray(tar((info, content), format=tarfile.PAX_FORMAT))
    data[512:1024] = record.ljust(512, b"\0")
    assert "does not parse" in str(refused(bytes(data)))


def test_member_longer_than_the_tar_is_refused_before_it_is_read():
    data = tar(member("x", b"y" * 100))
    assert "longer than the tar" in str(refused(data[:600]))


def test_directory_with_content_is_refused():
    assert "size" in str(refused(tar(member("x", b"content", type=tarfile.DIRTYPE))[:512] + bytes(1024)))


def forge(data: bytes, at: int, field: bytes) -> bytes:
    """A header with one field replaced and the checksum made right again."""
    header = bytearray(data[:512])
    header[at : at + len(field)] = field
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + data[512:]


@pytest.mark.parametrize("size", [b"\x80" + b"\xff" * 11, b"-0000000001\0", b"9" * 12, bytes(12)])
def test_size_that_is_no_octal_number_is_refused(size):
    assert "size" in str(refused(forge(tar(member("x")), 124, size)))


def test_name_twice_is_refused():
    assert "twice" in str(refused(tar(member("a"), member("./a"))))


def test_too_many_members_are_refused(monkeypatch):
    monkeypatch.setattr(tarball, "MAX_MEMBERS", 3)
    assert set(members(tar(*(member(f"m{i}") for i in range(3)))))
    assert "too many" in str(refused(tar(*(member(f"m{i}") for i in range(4)))))


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 100, b"x", b"x" * 512, b"\x1f\x8b" + b"x" * 600, tar(member("a"))[:1100]],
    ids=["empty", "short NULs", "one byte", "text", "gzip", "cut header"],
)
def test_what_is_no_whole_tar_is_refused(data):
    refused(data)


@given(st.binary(max_size=2000), st.integers(0, 1100), st.binary(max_size=20))
def test_arbitrary_bytes_give_members_or_a_bundle_error(data, at, patch):
    whole = tar(member("bundle.json", b"{}"))
    for candidate in (data, whole[:at] + patch + whole[at + len(patch) :]):
        with contextlib.suppress(BundleError):
            members(candidate)
