"""Writes measurement bundles: ``bundle.json`` beside ``blobs/<sha256>``, complete or not there at all.

A bundle is unsigned and unsealed: whoever measures holds no key. ``k3-ledger seal`` checks it and appends it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import TYPE_CHECKING, Final

from k3_ledger.schemas.measurement import Artifact, FailedMeasurement, RunMeasurement
from k3_ledger.schemas.models import FailedBundle, RunBundle
from k3_ledger.schemas.validate import format_bundle, parse_bundle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA: Final = "k3-ledger/bundle/1"


def describe_artifact(name: str, data: bytes, media_type: str) -> Artifact:
    """The reference to an artifact of these bytes."""
    return Artifact(name=name, sha256=hashlib.sha256(data).hexdigest(), size=len(data), media_type=media_type)


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
    if folder.exists():
        raise FileExistsError(folder)
    aside = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        (aside / "blobs").mkdir(parents=True)
        for digest, blob in blobs.items():
            (aside / "blobs" / digest).write_bytes(blob)
        (aside / "bundle.json").write_bytes(data)
        aside.rename(folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return hashlib.sha256(data).hexdigest()
