"""Files that an entry's page offers: instance, plan, certificate, and the model for other solvers."""

import gzip
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.api import refusal
from bench.schedulers import registry
from formulations.compact.options import why_not_compact
from instances import Instance
from instances.files import instance_to_json, plan_to_json, write_json
from instances.library import Library, LibraryLine

FOLDER = "files"
"""Folder of the files within the site."""

MODEL_WORKLOADS = 10
"""Largest number of workloads of an entry whose model is written; larger models take tens of megabytes."""

_MODEL_ENDINGS = {".mps.gz": "Model, MPS", ".lp.gz": "Model, LP"}


@dataclass(frozen=True, slots=True)
class Download:
    """A file of an entry: what it is, and its path within the site."""

    title: str
    path: str


def downloads(library: Library, line: LibraryLine) -> list[Download]:
    """Return the files that an entry has; ``line`` is the summary of the entry in the index of the library."""
    titles = {".json": "Instance, JSON"}
    if line.value is not None:
        titles["-plan.json"] = "Best plan, JSON"
    if line.bound is not None:
        titles["-certificate.json.gz"] = "Certificate, JSON"
    if line.workloads <= MODEL_WORKLOADS and has_model(library.instance(line.name)):
        titles |= _MODEL_ENDINGS
    return [Download(title, f"{FOLDER}/{line.name}{ending}") for ending, title in titles.items()]


def has_model(instance: Instance) -> bool:
    """Return whether the scheduler ``pwl`` can write an exact linear model of an instance."""
    return refusal(_modeller(), instance) is None and not why_not_compact(instance)


def download_makers(
    library: Library, line: LibraryLine, files: Iterable[Download]
) -> Mapping[str, Callable[[], bytes]]:
    """Return the functions that make the ``files`` of an entry, by path within the site."""
    writers: dict[str, Callable[[Path], None]] = {
        ".json": partial(_write_instance, library, line.name),
        "-plan.json": partial(_write_plan, library, line.name),
        "-certificate.json.gz": partial(_write_certificate, library, line.name),
        ".mps.gz": partial(_write_model, library, line.name),
        ".lp.gz": partial(_write_model, library, line.name),
    }
    prefix = f"{FOLDER}/{line.name}"
    return {
        file.path: partial(_content, Path(file.path).name, writers[file.path.removeprefix(prefix)]) for file in files
    }


def _content(name: str, write: Callable[[Path], None]) -> bytes:
    """Return the content of the file that ``write`` makes; ``write`` compresses it if ``name`` ends with ``.gz``."""
    with TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def _write_instance(library: Library, name: str, file: Path) -> None:
    write_json(file, instance_to_json(library.instance(name), frozen=True))


def _write_plan(library: Library, name: str, file: Path) -> None:
    entry = library.entry(name)
    assert entry.plan is not None
    write_json(file, plan_to_json(entry.plan))


def _write_certificate(library: Library, name: str, file: Path) -> None:
    write_json(file, library.certificate(name))


def _write_model(library: Library, name: str, file: Path) -> None:
    model = file.with_suffix("")
    _modeller().write_model(library.instance(name), model)
    file.write_bytes(gzip.compress(model.read_bytes(), mtime=0))


def _modeller() -> Any:
    """Return the scheduler that writes the models."""
    return registry.load(registry.entries()["pwl"].target)()
