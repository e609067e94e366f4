"""Files of other tools that people pass as tables: how to recognise each kind, and what to do with it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from instances.errors import InputError

_TABLES = "expected a table in CSV, TOML or JSON (docs/plan.md)"


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """A kind of file: its name, the remedy, and a test with two arguments, a text's first line and the whole text."""

    name: str
    remedy: str
    matches: Callable[[str, str], bool]


def is_model_analyzer(first_line: str) -> bool:
    """Return whether a table has the columns by which Triton Model Analyzer identifies a measurement."""
    return {"Model", "Batch", "Concurrency"} <= {cell.strip().strip('"') for cell in first_line.split(",")}


def _has_lines(*patterns: str) -> Callable[[str, str], bool]:
    return lambda _, text: all(re.search(pattern, text, re.MULTILINE) for pattern in patterns)


_KINDS = (
    ForeignFile(
        "a table of Triton Model Analyzer",
        "it gives latencies of models: use it as `profile`",
        lambda first_line, _: is_model_analyzer(first_line),
    ),
    ForeignFile(
        "a table of perf_analyzer",
        "it names no model, batch or share; write a row model,batch,share_pct,latency_ms for each run at concurrency 1",
        lambda first_line, _: "Inferences/Second" in first_line,
    ),
    ForeignFile(
        "a model configuration of Triton (config.pbtxt)",
        f"it has no rates or latencies; {_TABLES}",
        _has_lines(
            r"^\s*name\s*:\s*\"",
            r"^\s*(platform|backend|max_batch_size|instance_group|dynamic_batching)\s*[:\[{]",
        ),
    ),
    ForeignFile(
        "a Kubernetes manifest",
        f"it has no rates or latencies; {_TABLES}",
        _has_lines(r"^apiVersion\s*:", r"^kind\s*:"),
    ),
    ForeignFile(
        "an export of Excel that begins with its separator",
        "delete the first line, and separate the values by commas",
        lambda first_line, _: re.fullmatch(r"\"?sep=.\"?,*", first_line.strip(), re.IGNORECASE) is not None,
    ),
    ForeignFile(
        "an export with empty columns (lines end with commas, as Excel writes them)",
        "delete the empty columns in the spreadsheet, or the commas at the ends of the lines",
        lambda first_line, _: len(first_line.split(",")) > 2 and first_line.rstrip().endswith(","),
    ),
    ForeignFile(
        "an Alibaba list of pods",
        "it has requests for GPUs and no requests to services; a trace has rates or timestamps of requests",
        lambda first_line, _: "pod_phase" in first_line and "gpu_milli" in first_line,
    ),
)


def refuse_foreign(text: str, file: str) -> None:
    """Check that a text is not a file of another tool.

    Raises
    ------
    InputError
        If it is one; the error names the ``file``, its kind, and what to do.
    """
    stripped = text.lstrip()
    first_line = stripped.partition("\n")[0]
    for kind in _KINDS:
        if kind.matches(first_line, text):
            raise InputError(f"{file}: line 1", f"is {kind.name}; {kind.remedy}")


def refuse_manifest(data: Mapping[str, object], file: str) -> None:
    """Raise the error of ``refuse_foreign`` if the content of a JSON or TOML file is a Kubernetes manifest."""
    if {"apiVersion", "kind"} <= set(data):
        raise InputError(file, f"is a Kubernetes manifest; it has no rates or latencies; {_TABLES}")
