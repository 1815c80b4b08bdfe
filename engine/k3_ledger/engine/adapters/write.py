"""A reading as a bundle, with the file itself as an artifact.

Paths of the machine are replaced in that copy; where there were any, the digest of the file as it was is kept too.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from k3_ledger.engine.adapters.reading import refuse
from k3_ledger.engine.bundle import SCHEMA, describe_artifact, write_bundle
from k3_ledger.engine.machine import probe_machine
from k3_ledger.engine.places import Places
from k3_ledger.schemas.errors import SchemaError
from k3_ledger.schemas.measurement import RunMeasurement, Subject, Tee, WeightsRef
from k3_ledger.schemas.models import RunBundle
from k3_ledger.schemas.validate import format_bundle, parse_bundle

if TYPE_CHECKING:
    from pathlib import Path

    from k3_ledger.engine.adapters.reading import Named, Reading
    from k3_ledger.engine.gguf.file import ModelFile


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a file comes from, by the operator's word.

    Attributes:
        node: what the operator calls this machine, on which the file was made.
        ran: words of the command line that wrote it.
        version: of the engine, where the file names none.
        started: when it began, where the file does not say.
        role: role of the receipt.
        model: the weights, where they are at hand.
        file: the model file that these are of.
    """

    node: str
    ran: tuple[str, ...]
    version: str | None = None
    started: str | None = None
    role: Literal["candidate", "frontier", "reference"] = "reference"
    model: WeightsRef | None = None
    file: ModelFile | None = None


def bundle_reading(reading: Reading, data: bytes, name: str, origin: Origin, out: Path) -> tuple[str, RunMeasurement]:
    """Write the bundle; returns its id and what it holds.

    Args:
        reading: what the file holds.
        data: the file, a JSON text.
        name: what to call it among the artifacts.
        origin: what the operator says.
        out: folder for the bundle; must not exist.

    Raises:
        RunError: RUN_FOREIGN_FILE: file and operator contradict one another, or neither says something that is needed.
        FileExistsError: the folder is there already.
    """
    places = Places()
    machine = probe_machine(origin.node, list(places.words(origin.ran)), [])
    if reading.cpu is not None and reading.cpu != machine.node.cpu:
        raise refuse("cpu_info", "the file was made on another machine", machine.node.cpu, reading.cpu)
    if reading.model is not None and origin.file is not None:
        _check_model(reading.model, origin.file)
    version = _one("version", reading.version, origin.version)
    started = _one("started", reading.started, origin.started)
    kept = places.json(data)
    files = {name: (kept, "application/json")}
    if kept != data:
        listed = f"{hashlib.sha256(data).hexdigest()}  {name}\n".encode()
        files["original.sha256"] = (listed, "text/plain")
    try:
        measurement = RunMeasurement(
            role=origin.role,
            subject=Subject(name=reading.name, version=version, source=None, build_sha256=None),
            model=origin.model,
            machine=machine.model_copy(update={"started": started, "software": ()}),
            round=None,
            artifacts=tuple(describe_artifact(named, kept, media) for named, (kept, media) in files.items()),
            timing=reading.series,
            parity=None,
            memory=(),
            flags=(),
            expert_load=None,
            tee=Tee(kind="none", report_data_sha256=None),
        )
        parse_bundle(format_bundle(RunBundle(schema=SCHEMA, kind="run", body=measurement)))
    except (ValidationError, SchemaError) as error:
        where, why = _first(error)
        raise refuse(where, f"file or options say what no receipt can hold: {why}") from None
    blobs = {hashlib.sha256(kept).hexdigest(): kept for kept, _ in files.values()}
    return write_bundle(out, measurement, blobs), measurement


def _check_model(named: Named, given: ModelFile) -> None:
    """The model that the file names is the one that is given.

    Raises:
        RunError: RUN_FOREIGN_FILE.
    """
    names = sorted({name for path in given.paths for name in (path.name, path.resolve().name)})
    if re.split(r"[/\\]", named.file)[-1] not in names:
        raise refuse(named.where, "the file names another model than --model", " or ".join(names), named.file)
    tensor_bytes = sum(info.size for info in given.tensors.values())
    parameters = sum(math.prod(info.shape) for info in given.tensors.values())
    for what, stated, held in (
        ("bytes of tensors", named.tensor_bytes, tensor_bytes),
        ("parameters", named.parameters, parameters),
    ):
        if stated is not None and stated != held:
            raise refuse(named.where, f"the file was made with a model of other {what} than --model", str(held), stated)


def _first(error: ValidationError | SchemaError) -> tuple[str, str]:
    """Field and fault of the first thing that does not fit."""
    if isinstance(error, SchemaError):
        return error.finding.position.field or "file", error.finding.message
    fault = error.errors()[0]
    return ".".join(map(str, fault["loc"])), fault["msg"]


def _one(what: str, found: str | None, told: str | None) -> str:
    if found is None and told is None:
        raise refuse(what, f"the file does not say it: say it with --{what}")
    if found is not None and told is not None and found != told:
        raise refuse(what, "file and option contradict one another", found, told)
    return found if found is not None else str(told)
