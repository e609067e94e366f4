"""Malformed tables and traces of ``bench plan``: each is refused in one line, with exit code 2 and no traceback."""

import json
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from bench.cli.app import main
from bench.fleet.trace import read_day_of_traffic
from instances import InputError, Instance
from instances.inputs import instance_from_tables
from tests.fuzz.formats import Format
from tests.fuzz.malformed import malformed
from tests.instances.test_foreign_files import TABLES
from tests.instances.test_own_tables import MODELS

EXAMPLES_PER_READER = 15
"""Number of malformed files of each kind that are read."""

EXAMPLES_PER_COMMAND = 2
"""Number of refused files of each kind that are also passed to the command."""

TERMS = (
    "service,model,rate_rps,slo_ms,attainment,arrivals,weight,priority\n"
    "a,tiny,5,50,0.99,gamma:2,2,1\nb,ranker,5,90,,,,\n"
)
LANGUAGE = (
    "service,model,rate_rps,slo_ms,prompt_tokens,output_tokens,ttft_ms,tpot_ms\n"
    "chat,llama-7b,4,,192,96,600,50\ndrafts,llama-7b,3,,128,64,600,50\n"
)
AS_JSON = json.dumps([{"service": "a", "model": "tiny", "rate_rps": 5, "slo_ms": 50}])
AS_TOML = '[[services]]\nservice = "a"\nmodel = "tiny"\nrate_rps = 5\nslo_ms = 50\n'
MANIFEST = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: tagger}\nspec:\n  replicas: 2\n"
PBTXT = 'name: "tagger"\nplatform: "onnx"\nmax_batch_size: 8\ndynamic_batching { max_queue_delay_microseconds: 2000 }\n'
ANALYZER = "Model,GPU UUID,Batch,Concurrency,p99 Latency (ms),Throughput (infer/sec)\n" + "".join(
    f"{model},GPU-1,{batch},1,{4 + batch},220\n" for model in MODELS for batch in (1, 4, 16)
)

FOREIGN = ("manifest.yaml", "config.pbtxt")
"""Files that are refused even without errors in them."""

# By file name: the table that the file stands for, how ``malformed`` varies it, and its content without errors
CONTENTS = {
    "services.csv": ("services", "csv", TERMS),
    "language.csv": ("services", "csv", LANGUAGE),
    "services.json": ("services", "json", AS_JSON),
    "services.toml": ("services", "toml", AS_TOML),
    "manifest.yaml": ("services", "csv", MANIFEST),
    "config.pbtxt": ("services", "csv", PBTXT),
    "gpus.csv": ("gpus", "csv", TABLES["gpus"]),
    "profile.csv": ("profile", "csv", TABLES["profile"]),
    "analyzer.csv": ("profile", "csv", ANALYZER),
    "pairs.csv": ("pairs", "csv", TABLES["pairs"]),
    "per-service.csv": ("trace", "csv", "time_s,search,chat,video,ads\n0,1,2,3,4\n60,1,2,3,4\n7200,2,2,3,4\n"),
    "timestamps.csv": (
        "trace",
        "csv",
        "app,func,end_timestamp,duration\n"
        + "".join(f"x,{service},{second},1\n" for second in (5, 70) for service in ("search", "chat", "video", "ads")),
    ),
    "tokens.csv": ("trace", "csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "2023-11-16 18:15:46.68,374,44\n" * 2),
    "counts.csv": ("trace", "csv", "requests\n" + "3\n" * 20),
}


def read(table: str, folder: Path, instance: Instance, path: Path) -> object:
    """Read the file at ``path`` as a trace, or as one table beside the good tables in ``folder``."""
    if table == "trace":
        return read_day_of_traffic(path, instance, 3600.0)
    paths = {name: folder / f"{name}.csv" for name in TABLES} | {table: path}
    if "llama" in path.read_text(errors="replace"):
        paths = {"services": path, "gpus": folder / "llm.csv", "profile": None, "pairs": None}  # type: ignore[dict-item]
    return instance_from_tables(**paths)  # type: ignore[arg-type]


def refusal(reader: Callable[[Path], object], path: Path, content: bytes) -> str | None:
    """Return why a file is refused; ``None`` if it is read."""
    path.write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # arithmetic with extreme numbers warns
            reader(path)
    except InputError as error:
        return str(error)
    return None


def command_on(table: str, name: str) -> list[str]:
    """Return the arguments of ``bench plan`` that read the file ``name`` as one table, beside good tables."""
    good_files = {"services": "proper/services.csv", "gpus": "proper/gpus.csv", "profile": "proper/profile.csv"}
    files = good_files | {table: name}
    options = [f"--{option}={files[option]}" for option in ("gpus", "profile", "pairs", "trace") if option in files]
    return ["plan", files["services"], *options, "--time-limit=1"]


def check(table: str, kind: str, name: str, good: str, instance: Instance, capfd: pytest.CaptureFixture[str]) -> None:
    """Read malformed files of one kind in the current folder, and give some of them to the command."""
    path, reader = Path(name), partial(read, table, Path("proper"), instance)
    is_read: Counter[bool] = Counter()

    @settings(
        max_examples=EXAMPLES_PER_READER,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(malformed(Format(kind, name, good.encode, reader)))
    def refuse(content: bytes) -> None:
        reason = refusal(reader, path, content)
        is_read[reason is None] += 1
        if reason is None or is_read[False] > EXAMPLES_PER_COMMAND or name == "language.csv":
            return
        assert len(reason.splitlines()) == 1, reason
        capfd.readouterr()
        code = main(command_on(table, name))
        printed = capfd.readouterr()
        assert (code, printed.out) == (2, ""), printed
        lines = [line for line in printed.err.splitlines() if not line.startswith("note: ")]
        assert len(lines) == 1, printed
        assert lines[0].startswith("error: ")

    assert (refusal(reader, path, good.encode()) is not None) == (name in FOREIGN)
    refuse()
    assert is_read[False] > EXAMPLES_PER_READER / 3


def test_malformed_tables_of_a_plan_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    monkeypatch.chdir(tmp_path)
    proper = Path("proper")
    proper.mkdir()
    for name, text in TABLES.items():
        (proper / f"{name}.csv").write_text(text)
    (proper / "llm.csv").write_text("gpu\na100-llm\n")
    instance = instance_from_tables(*(proper / f"{name}.csv" for name in ("services", "profile", "gpus"))).instance
    for name, (table, kind, good) in CONTENTS.items():
        with subtests.test(name):
            check(table, kind, name, good, instance, capfd)
