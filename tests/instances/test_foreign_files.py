"""Files of other tools in place of tables: refused in one line that names the tool and the remedy."""

import json
from itertools import product
from pathlib import Path

import pytest

from instances import InputError
from instances.files.foreign import refuse_foreign
from instances.inputs import instance_from_tables
from tests.instances.test_own_tables import GPUS, MODELS, SERVICES, profile

ANALYZER_HEADER = (
    "Model,Batch,Concurrency,Model Config Path,Instance Group,Satisfies Constraints,Throughput (infer/sec),"
    "p99 Latency (ms),Server Queue time (ms)"
)
PAIRS = "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms\ntiny,1,50,ranker,1,50,4\n"

FOREIGN = {
    "is a table of perf_analyzer; it names no model, batch or share; write a row": (
        "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
        "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n"
        "1,150,290,1270,38,300,4530,10,11,6460,6540,6560,6590\n"
    ),
    "is a table of perf_analyzer": "Request Rate,Inferences/Second,Client Send\n10,9.9,290\n",
    "is a model configuration of Triton (config.pbtxt); it has no rates or latencies; expected a table": (
        'name: "tagger"\nplatform: "tensorrt_plan"\nmax_batch_size: 8\n'
        "dynamic_batching { max_queue_delay_microseconds: 2000 }\n"
    ),
    "is a Kubernetes manifest; it has no rates or latencies; expected a table in CSV, TOML or JSON": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: tagger}\nspec:\n  replicas: 2\n"
    ),
    "is a Kubernetes manifest": "# of the team\n---\nkind: Pod\napiVersion: v1\n",
    "is an export of Excel that begins with its separator; delete the first line": (
        "sep=,\nservice,model,rate_rps,slo_ms\na,tiny,5,50\n"
    ),
    "and separate the values by commas": "SEP=;\nservice;model;rate_rps;slo_ms\na;tiny;5;50\n",
    "is an export with empty columns (lines end with commas, as Excel writes them); delete the empty columns": (
        "service,model,rate_rps,slo_ms,,,\na,tiny,5,50,,,\n"
    ),
    "is an Alibaba list of pods": "x,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase\na,1,1,1,1,,LS,R\n",
}
TABLES = {"services": SERVICES, "gpus": GPUS, "profile": profile(), "pairs": PAIRS}


def paths_with(folder: Path, name: str, text: str, suffix: str = ".csv") -> dict[str, Path]:
    """Return the paths of proper tables, with ``text`` in place of the table ``name``."""
    paths = {}
    for table, content in TABLES.items():
        paths[table] = folder / f"{table}{suffix if table == name else '.csv'}"
        paths[table].write_text(text if table == name else content)
    return paths


def refusal(paths: dict[str, Path]) -> str:
    with pytest.raises(InputError) as caught:
        instance_from_tables(**paths)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_file_of_another_tool_is_named(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, (problem, text) in product(TABLES, FOREIGN.items()):
        with subtests.test(name, problem=problem):
            message = refusal(paths_with(tmp_path, name, text))
            assert message.startswith(f"{tmp_path / name}.csv: line 1: is a")
            assert problem in message


@pytest.mark.parametrize("table", [*TABLES.values(), "service,model\na,b", ""])
def test_a_proper_table_is_accepted(table: str) -> None:
    refuse_foreign(table, "t.csv")


def test_a_manifest_in_json_is_named(tmp_path: Path) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "Service", "services": []})
    message = refusal(paths_with(tmp_path, "services", text, ".json"))
    assert message.startswith(f"{tmp_path / 'services.json'}: is a Kubernetes manifest; it has no rates")


def test_a_workbook_is_named(tmp_path: Path) -> None:
    paths = paths_with(tmp_path, "gpus", "")
    paths["gpus"].write_bytes(b"PK\x03\x04\x14\x00\x06\x00")
    assert "is a workbook of Excel or another ZIP file; save a sheet as CSV" in refusal(paths)


def analyzer(rows: list[str], header: str = ANALYZER_HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


def test_rows_of_concurrent_instances_or_requests_are_refused(tmp_path: Path) -> None:
    rows = [
        f"{model},{batch},{concurrency},c,{group},Yes,100,{10 * batch},2.0"
        for model in MODELS
        for batch in (1, 2, 4)
        for concurrency, group in ((5, "1/GPU"), (1, "4/GPU"), (8, "4/GPU"))
    ]
    message = refusal(paths_with(tmp_path, "profile", analyzer(rows)))
    assert message == (
        f"{tmp_path / 'profile.csv'}: line 2, column Concurrency: ranker has no row with Instance Group 1 and"
        " Concurrency 1: latencies of other rows are not those of a batch alone"
    )


def test_the_table_of_model_analyzer_is_read_at_concurrency_1(tmp_path: Path) -> None:
    """The default columns have no memory; other rows have latencies that would change the fit."""
    rows = [
        f"{model},{batch},{concurrency},c,{group},Yes,100,{latency * batch},2.0"
        for model in MODELS
        for batch in (1, 2, 4)
        for concurrency, group, latency in ((8, "1/GPU", 90), (1, "4/GPU", 70), (1, "1/GPU", 5))
    ]
    paths = paths_with(tmp_path, "profile", analyzer(rows))
    del paths["pairs"]
    tabulated = instance_from_tables(**paths)  # type: ignore[arg-type]
    gpu = tabulated.instance.gpus[0].type
    assert gpu.allowed_shares == (gpu.share_units,)
    for model in gpu.models.values():
        solo = model.profiled(gpu.name)
        assert solo.times_ms[:, -1].max() < 4 * 5 * 1.5  # milliseconds at batch 4


def test_a_table_of_whole_gpus_needs_no_batch_1(tmp_path: Path) -> None:
    rows = [f"{model},{batch},1,c,1/GPU,Yes,100,{5 * batch},2.0" for model in MODELS for batch in (4, 8, 16)]
    paths = paths_with(tmp_path, "profile", analyzer(rows))
    del paths["pairs"]
    tabulated = instance_from_tables(**paths)  # type: ignore[arg-type]
    gpu = tabulated.instance.gpus[0].type
    assert gpu.allowed_shares == (gpu.share_units,)
    assert any("batch 1 on " in note and "ranker (as batch 4)" in note for note in tabulated.notes)
    for model in gpu.models.values():
        solo = model.profiled(gpu.name)
        whole_ms = dict(zip(solo.batch, solo.times_ms[:, -1], strict=True))
        assert whole_ms[1] == pytest.approx(whole_ms[4])

    few = [row for row in rows if ",16," not in row]
    paths = paths_with(tmp_path, "profile", analyzer(few))
    assert "has 2 rows; expected at least 3 to fit its times" in refusal(paths)


def test_a_table_of_gpu_metrics_is_refused(tmp_path: Path) -> None:
    gpu_metrics = analyzer(
        ["tiny,GPU-1,1,1,c,1/GPU,Yes,900,30,50"],
        "Model,GPU UUID,Batch,Concurrency,Model Config Path,Instance Group,Satisfies Constraints,"
        "GPU Memory Usage (MB),GPU Utilization (%),GPU Power Usage (W)",
    )
    assert (
        'is a table of Triton Model Analyzer that has no "p99 Latency (ms)"; expected the table of inferences'
        in refusal(paths_with(tmp_path, "profile", gpu_metrics))
    )
    assert "is a table of Triton Model Analyzer; it gives latencies of models: use it as `profile`" in refusal(
        paths_with(tmp_path, "services", gpu_metrics)
    )
