"""Readers of measured latencies: models alone (``solo.csv``), pairs (``pairs.csv``) and passes of language models."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path

from instances.errors import InputError
from instances.files import read_text
from instances.grouping import grouped

SOLO_FILE, PAIRS_FILE = "solo.csv", "pairs.csv"
"""Files in a folder of measurements."""

MEASURED_RESIDENTS = 2
"""Largest number of models that run on a GPU together in a folder of measurements."""

SOLO_COLUMNS = ("model", "batch", "share_pct", "latency_ms")
PAIR_COLUMNS = ("model_a", "batch_a", "share_a_pct", "model_b", "batch_b", "share_b_pct", "latency_a_ms")
PASS_COLUMNS = ("model", "tensor_parallel", "sm_pct", "batch", "sequence_length", "phase", "latency_ms")


@dataclass(frozen=True, slots=True)
class Configuration:
    """A model at a batch and a share."""

    model: str
    batch: int
    share_pct: float

    def __str__(self) -> str:
        return f"{self.model} b{self.batch} {self.share_pct:g} %"


@dataclass(frozen=True, slots=True)
class SoloSample:
    """One row of ``solo.csv``: a model alone; utilisations and memory are ``nan`` if they were not measured.

    ``latency_ms`` is the time of a whole inference, transfers included.
    """

    configuration: Configuration
    latency_ms: float
    l2_pct: float
    dram_pct: float
    memory_mib: float = nan


@dataclass(frozen=True, slots=True)
class PairSample:
    """One measured latency of ``pairs.csv``: ``own`` beside ``other``; ``std_ms`` is ``nan`` if the file omits it."""

    own: Configuration
    other: Configuration
    latency_ms: float
    std_ms: float

    @property
    def pair(self) -> tuple[str, str]:
        """Both models, sorted."""
        first, second = sorted((self.own.model, self.other.model))
        return first, second


@dataclass(frozen=True, slots=True)
class PassSample:
    """One measured pass of a language model on one GPU, alone.

    ``length`` is the number of tokens of each prompt in the phase ``prefill``, and of each context in ``decoding``.
    """

    model: str
    phase: str
    batch: int
    length: int
    share_pct: float
    latency_ms: float


def read_passes(file: Path) -> list[PassSample]:
    """Read passes of language models; passes on several GPUs (tensor parallel) are left out.

    Raises
    ------
    InputError
        If the file cannot be read or a line is wrong; the error names the line.
    """
    samples = []
    for where, row in _rows(file, PASS_COLUMNS):
        configuration = _configuration(row, "model", "batch", "sm_pct", where)
        length = int(_positive(row, "sequence_length", where))
        if row["phase"] not in ("prefill", "decoding"):
            raise InputError(where, f'phase is "{row["phase"]}"; expected prefill or decoding')
        if _positive(row, "tensor_parallel", where) == 1.0:
            latency_ms = _positive(row, "latency_ms", where)
            samples.append(
                PassSample(
                    configuration.model, row["phase"], configuration.batch, length, configuration.share_pct, latency_ms
                )
            )
    return samples


def read_solo(file: Path) -> list[SoloSample]:
    """Read ``solo.csv``: model, batch, share_pct, latency_ms; optionally l2_util_pct, dram_util_pct, memory_mib.

    Raises
    ------
    InputError
        If the file cannot be read or a line is wrong; the error names the line.
    """
    return [
        SoloSample(
            _configuration(row, "model", "batch", "share_pct", where),
            _positive(row, "latency_ms", where),
            _optional(row, "l2_util_pct", where),
            _optional(row, "dram_util_pct", where),
            _optional(row, "memory_mib", where),
        )
        for where, row in _rows(file, SOLO_COLUMNS)
    ]


def by_model(samples: Iterable[SoloSample]) -> dict[str, list[SoloSample]]:
    """Return the samples of each model, in the order of ``samples``."""
    return grouped((sample.configuration.model, sample) for sample in samples)


def read_pairs(file: Path) -> list[PairSample]:
    """Read ``pairs.csv``: two configurations and ``latency_a_ms``; optionally latency_b_ms, std_a_ms, std_b_ms.

    A row with both latencies gives two samples.

    Raises
    ------
    InputError
        If the file cannot be read or a line is wrong; the error names the line.
    """
    samples = []
    for where, row in _rows(file, PAIR_COLUMNS):
        a, b = (_configuration(row, f"model_{x}", f"batch_{x}", f"share_{x}_pct", where) for x in "ab")
        samples.append(PairSample(a, b, _positive(row, "latency_a_ms", where), _optional(row, "std_a_ms", where)))
        if row.get("latency_b_ms"):
            samples.append(PairSample(b, a, _positive(row, "latency_b_ms", where), _optional(row, "std_b_ms", where)))
    return samples


def _rows(file: Path, columns: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the place for error messages and the fields of each row; raise an error if there is no row."""
    reader = csv.DictReader(read_text(file).splitlines())
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{file}: line 1", f"lacks the columns {', '.join(missing)}")
        empty = True
        for row in reader:
            empty = False
            yield f"{file}: line {reader.line_num}", {key: value or "" for key, value in row.items() if key}
    except csv.Error as error:
        raise InputError(f"{file}: line {reader.line_num}", f"is not valid CSV: {error}") from None
    if empty:
        raise InputError(str(file), "has no rows")


def _configuration(row: Mapping[str, str], model: str, batch: str, share: str, where: str) -> Configuration:
    batch_size, share_pct = _positive(row, batch, where), _positive(row, share, where)
    if not row[model] or batch_size != int(batch_size) or share_pct > 100.0:
        raise InputError(where, "expected a model, a whole batch and a share of at most 100 percent")
    return Configuration(row[model], int(batch_size), share_pct)


def _positive(row: Mapping[str, str], column: str, where: str) -> float:
    value = _optional(row, column, where)
    if not value > 0.0:
        raise InputError(where, f'{column} is "{row[column]}"; expected a number greater than 0')
    return value


def _optional(row: Mapping[str, str], column: str, where: str) -> float:
    text = row.get(column, "")
    if not text:
        return nan
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise InputError(where, f'{column} is "{text}"; expected a number')
    return value
