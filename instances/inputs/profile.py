"""A user's own profiles: measured latencies by GPU type and model, checked for gaps."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

from instances.errors import InputError, printable
from instances.files.foreign import is_model_analyzer
from instances.files.records import Record, csv_text, read_records
from instances.inputs.tables import ANALYZER, PAIRS, PROFILE
from instances.measurements import Configuration, PairSample, SoloSample

LEAST_ROWS = 6
"""Fewest rows of a model on a GPU type that allow a fit, invented rows at half the share included."""

_MIB_PER_MB = 1e6 / 2**20


@dataclass(frozen=True, slots=True)
class OwnProfile:
    """Measured latencies by GPU type.

    Attributes
    ----------
    solo, pairs
        Samples of models alone and in pairs, by GPU type.
    whole
        GPU types that were measured at 100 % only: only whole GPUs can be planned.
    without_batch_1
        Least measured batch of models without batch 1 on whole GPUs, by GPU type and model. Batch 1 is taken to last
        as long as this batch.
    """

    solo: Mapping[str, Sequence[SoloSample]]
    pairs: Mapping[str, Sequence[PairSample]]
    whole: frozenset[str]
    without_batch_1: Mapping[tuple[str, str], int]


def read_profile(file: Path | None, pairs_file: Path | None, gpus: Sequence[str]) -> OwnProfile:
    """Read the tables of latencies; without files, the result is empty.

    Parameters
    ----------
    file, pairs_file
        Tables with the columns ``PROFILE`` (or ``ANALYZER``) and ``PAIRS``.
    gpus
        GPU types of the pool; rows of other types are left out.

    Raises
    ------
    InputError
        If a row is wrong, or a model has too few rows; the error names file, line and column.
    """
    solo: dict[str, list[SoloSample]] = defaultdict(list)
    rows_of: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for row in _profile_rows(file):
        gpu = _gpu_of(row, gpus)
        if gpu in gpus:
            rows_of[gpu, row.values["model"]].append(row)
            solo[gpu].append(_sample(row))
    whole = frozenset(
        gpu for gpu, samples in solo.items() if all(sample.configuration.share_pct == 100.0 for sample in samples)
    )
    for (gpu, model), rows in rows_of.items():
        _check_enough(gpu, model, rows, whole=gpu in whole)
    without_batch_1 = {}
    for (gpu, model), rows in rows_of.items():
        smallest_batch_row = min(rows, key=lambda row: row.values["batch"])
        if gpu in whole and smallest_batch_row.values["batch"] > 1:
            without_batch_1[gpu, model] = int(smallest_batch_row.values["batch"])
            # A batch of fewer requests takes no longer.
            solo[gpu].append(_sample(Record({**smallest_batch_row.values, "batch": 1}, smallest_batch_row.place)))
    for gpu in whole:  # the fit needs a second share; no plan uses that share
        solo[gpu] += [_at_half(sample) for sample in solo[gpu]]
    pairs: dict[str, list[PairSample]] = defaultdict(list)
    if pairs_file is not None:
        for row in read_records(pairs_file, "pairs", PAIRS, ()):
            gpu = _gpu_of(row, gpus)
            _check_profiled(row, gpu, {model for profiled_gpu, model in rows_of if profiled_gpu == gpu})
            pairs[gpu] += _pair(row)
    return OwnProfile(solo, pairs, whole, without_batch_1)


def _profile_rows(file: Path | None) -> Iterable[Record]:
    if file is None:
        return []
    if file.suffix.lower() not in (".toml", ".json") and is_model_analyzer(csv_text(file).partition("\n")[0]):
        return _analyzer_rows(file)
    return read_records(file, "profile", PROFILE, ("gpu", "model", "batch", "share_pct"))


def _analyzer_rows(file: Path) -> list[Record]:
    """Return the rows of Model Analyzer of one instance at concurrency 1; their share is 100 %.

    At a higher concurrency, or with several instances, a latency is not that of a batch alone.

    Raises
    ------
    InputError
        If the table has no latencies, or a model has no such row.
    """
    header = csv_text(file).partition("\n")[0]
    if "p99 Latency (ms)" not in header:
        problem = 'has no "p99 Latency (ms)"; expected the table of inferences (metrics-model-inference.csv)'
        raise InputError(f"{printable(str(file))}: line 1", f"is a table of Triton Model Analyzer that {problem}")
    rows = read_records(file, "profile", ANALYZER, (), ignore_others=True)
    alone = {(row.values["Model"], row.values["Batch"]): row for row in rows if _is_alone(row)}
    usable_models = {model for model, _ in alone}
    for row in rows:
        if (model := row.values["Model"]) not in usable_models:
            problem = f"{printable(model)} has no row with Instance Group 1 and Concurrency 1"
            raise row.error("Concurrency", f"{problem}: latencies of other rows are not those of a batch alone")
    return [
        Record(
            {
                "model": row.values["Model"],
                "batch": row.values["Batch"],
                "share_pct": 100.0,
                "latency_ms": row.values["p99 Latency (ms)"],
                "memory_mib": row.values.get("Max GPU Memory Usage (MB)", nan) * _MIB_PER_MB,
            },
            row.place,
        )
        for row in alone.values()
    ]


def _is_alone(row: Record) -> bool:
    """Return whether a row was measured with one instance (``1/GPU``) and one request in flight."""
    instances = re.match(r"\d+", row.values.get("Instance Group", "1"))
    return row.values["Concurrency"] == 1 and instances is not None and int(instances[0]) == 1


def _gpu_of(row: Record, gpus: Sequence[str]) -> str:
    gpu = row.values.get("gpu")
    if gpu is None and len(gpus) > 1:
        raise row.error("gpu", f"is empty; expected one of the GPU types on offer: {', '.join(gpus)}")
    return str(gpu) if gpu is not None else gpus[0]


def _sample(row: Record) -> SoloSample:
    configuration = Configuration(row.values["model"], row.values["batch"], row.values["share_pct"])
    optional = (row.values.get(name, nan) for name in ("l2_util_pct", "dram_util_pct", "memory_mib"))
    return SoloSample(configuration, row.values["latency_ms"], *optional)


def _at_half(sample: SoloSample) -> SoloSample:
    """Return an invented sample at half the share; it takes twice as long."""
    whole = sample.configuration
    half = Configuration(whole.model, whole.batch, whole.share_pct / 2.0)
    return SoloSample(half, 2.0 * sample.latency_ms, sample.l2_pct, sample.dram_pct, sample.memory_mib)


def _pair(row: Record) -> list[PairSample]:
    a, b = (
        Configuration(row.values[f"model_{x}"], row.values[f"batch_{x}"], row.values[f"share_{x}_pct"]) for x in "ab"
    )
    samples = [PairSample(a, b, row.values["latency_a_ms"], nan)]
    return samples + ([PairSample(b, a, row.values["latency_b_ms"], nan)] if "latency_b_ms" in row.values else [])


def _check_enough(gpu: str, model: str, rows: Sequence[Record], whole: bool) -> None:
    """Check that a model has enough rows on a GPU type: two batches, and if it is not whole, batch 1 and two shares."""
    batches = sorted({row.values["batch"] for row in rows})
    shares = sorted({row.values["share_pct"] for row in rows})
    place = f"{model} on {gpu}"
    if (batches[0] != 1 and not whole) or len(batches) < 2:
        listed = ", ".join(f"{batch:g}" for batch in batches[:5])
        expected = "two batches" if whole else "batch 1 and at one more batch"
        raise rows[0].error("batch", f"{place} has batch {listed}; expected rows at {expected}")
    if len(shares) < 2 and not whole:
        raise rows[0].error("share_pct", f"{place} has a share of {shares[0]:g} % only; expected at least two shares")
    if len(rows) * (2 if whole else 1) < LEAST_ROWS:
        fewest = LEAST_ROWS // (2 if whole else 1)
        raise rows[0].error("latency_ms", f"{place} has {len(rows)} rows; expected at least {fewest} to fit its times")


def _check_profiled(row: Record, gpu: str, models: set[str]) -> None:
    for x in "ab":
        if row.values[f"model_{x}"] not in models:
            problem = f'"{row.values[f"model_{x}"]}" has no rows on {gpu} in the profile; expected a profiled model'
            raise row.error(f"model_{x}", problem)
