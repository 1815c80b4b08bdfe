"""Writes measurement bundles: ``bundle.json`` beside ``blobs/<sha256>``, complete or not there at all.

A bundle is unsigned and unsealed: whoever measures holds no key. ``k3-ledger seal`` checks it and appends it.
Its place is taken before anything is measured, and what was measured is kept even where that place is lost meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from k3_ledger.schemas.measurement import Artifact, FailedMeasurement, RunMeasurement
from k3_ledger.schemas.models import FailedBundle, RunBundle
from k3_ledger.schemas.validate import format_bundle, parse_bundle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SCHEMA: Final = "k3-ledger/bundle/1"
_PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def describe_artifact(name: str, data: bytes, media_type: str) -> Artifact:
    """The reference to an artifact of these bytes."""
    return Artifact(name=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data), media_type=media_type)


class Reserved:
    """The place of a bundle, taken: an empty folder of its name. Use it as a context manager.

    Of two that want one place, the second is told at once. The folder above is held open, so that moving it moves the
    bundle with it. Where nothing was kept, the empty folder goes again; a process that is killed leaves it.

    Args:
        folder: where the bundle goes; must not exist. Its parent must.

    Raises:
        FileExistsError: something stands there.
        OSError: no folder can be made there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._parent = os.open(folder.parent, _PLACE)
        try:
            os.mkdir(folder.name, dir_fd=self._parent)
        except OSError as error:
            os.close(self._parent)
            raise OSError(error.errno, error.strerror, str(folder)) from None
        self._own = os.stat(folder.name, dir_fd=self._parent, follow_symlinks=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            if self._is_ours():
                os.rmdir(self.folder.name, dir_fd=self._parent)  # takes an empty folder and no other
        os.close(self._parent)

    def put(self, data: bytes, blobs: Mapping[str, bytes]) -> None:
        """Write the bundle to this place, whole or not at all.

        Raises:
            OSError: it cannot be written there, or the place is another's by now.
        """
        if not self._is_ours():
            raise FileExistsError(self.folder)
        _publish(self._above(), self.folder.name, data, blobs)

    def keep(self, data: bytes, blobs: Mapping[str, bytes]) -> Path:
        """Write the bundle to this place, or to the next one that takes it; returns where it is.

        Tried in turn: the place itself, another name beside it, the folder for temporary files, the current one, the
        user's own.

        Raises:
            OSError: none of them takes it.
        """
        try:
            return self._put(data, blobs)
        except OSError as error:
            for folder in self._folders():
                with contextlib.suppress(OSError):
                    return _beside(folder, data, blobs)
            raise error from None

    def _put(self, data: bytes, blobs: Mapping[str, bytes]) -> Path:
        self.put(data, blobs)
        try:
            if self.folder.samefile(self._above() / self.folder.name):
                return self.folder
        except OSError:  # its name leads elsewhere by now
            pass
        return self._above().readlink() / self.folder.name

    def _above(self) -> Path:
        """The folder above as it was opened, whatever its name leads to by now."""
        return Path(f"/proc/self/fd/{self._parent}")

    def _folders(self) -> Iterator[Path]:
        finders: tuple[Callable[[], str | Path], ...] = (
            self._above().readlink,
            tempfile.gettempdir,
            Path.cwd,
            Path.home,
        )
        for find in finders:
            with contextlib.suppress(OSError, RuntimeError):
                yield Path(find())

    def _is_ours(self) -> bool:
        try:
            return os.path.samestat(self._own, os.stat(self.folder.name, dir_fd=self._parent, follow_symlinks=False))
        except OSError:
            return False


def _beside(folder: Path, data: bytes, blobs: Mapping[str, bytes]) -> Path:
    name = f"k3-ledger-kept-{secrets.token_hex(8)}"
    _publish(folder, name, data, blobs)
    return folder / name


def _publish(parent: Path, name: str, data: bytes, blobs: Mapping[str, bytes]) -> None:
    """Write into a folder of another name, which then takes that of an empty one, or of none."""
    aside = parent / f".k3-ledger-{secrets.token_hex(8)}"
    try:
        aside.mkdir()
        (aside / "blobs").mkdir()
        for digest, blob in blobs.items():
            (aside / "blobs" / digest).write_bytes(blob)
        (aside / "bundle.json").write_bytes(data)
        aside.rename(parent / name)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def bundle_bytes(measurement: RunMeasurement | FailedMeasurement, blobs: Mapping[str, bytes]) -> bytes:
    """``bundle.json`` of a measurement.

    Args:
        measurement: the receipt-to-be.
        blobs: bytes of every artifact that ``measurement`` names, by hexadecimal digest.

    Raises:
        ValueError: the blobs are not exactly those that the measurement names.
        SchemaError: the measurement does not fit the format (a bundle that could not be sealed is not written).
    """
    named = {artifact.sha256 for artifact in measurement.artifacts}
    if named != set(blobs) or any(hashlib.sha256(data).hexdigest() != digest for digest, data in blobs.items()):
        raise ValueError("blobs and the artifacts that the measurement names are not the same")
    bundle: RunBundle | FailedBundle
    if isinstance(measurement, RunMeasurement):
        bundle = RunBundle(schema=SCHEMA, kind="run", body=measurement)
    else:
        bundle = FailedBundle(schema=SCHEMA, kind="failed", body=measurement)
    data = format_bundle(bundle)
    parse_bundle(data)
    return data


def write_bundle(folder: Path, measurement: RunMeasurement | FailedMeasurement, blobs: Mapping[str, bytes]) -> str:
    """Write a bundle into a new folder.

    Args:
        folder: where to put it; must not exist. Its parent must.
        measurement: the receipt-to-be.
        blobs: bytes of every artifact that ``measurement`` names, by hexadecimal digest.

    Returns:
        The bundle's id: SHA-256 of ``bundle.json``, hexadecimal.

    Raises:
        FileExistsError: the folder is there already.
        ValueError, SchemaError: see :func:`bundle_bytes`.
    """
    data = bundle_bytes(measurement, blobs)
    with Reserved(folder) as place:
        place.put(data, blobs)
    return hashlib.sha256(data).hexdigest()
