"""Services of language models from a table: the instance, the memory, and the refusals."""

from pathlib import Path

import pytest

from instances import InputError, Instance
from instances.files import instance_from_json, instance_to_json
from instances.inputs import instance_from_tables
from instances.inputs.instance import TabulatedInstance
from instances.memory import CONTEXT_MIB
from tests.instances.test_own_tables import profile

HEADER = "service,model,rate_rps,slo_ms,prompt_tokens,output_tokens,ttft_ms,tpot_ms"
CHAT = "chat,llama-7b,8,,192,160,500,40"


def tabulated(folder: Path, *rows: str, gpus: str = "gpu\na100-llm\n", latencies: str = "") -> TabulatedInstance:
    (folder / "services.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    (folder / "gpus.csv").write_text(gpus)
    if latencies:
        (folder / "profile.csv").write_text(latencies)
    return instance_from_tables(
        folder / "services.csv", folder / "profile.csv" if latencies else None, folder / "gpus.csv"
    )


def test_a_row_becomes_two_workloads_with_weights_and_cache(tmp_path: Path) -> None:
    table = tabulated(tmp_path, CHAT)
    prefill, decode = table.instance.workloads

    assert (prefill.id, prefill.slo_ms, prefill.rate_rps) == ("chat/prefill", 460.0, 8.0)
    assert (decode.id, decode.slo_ms, decode.steps) == ("chat/decode", 40.0, 160)
    assert table.instance.latency_buffer == 1.2
    model = table.instance.gpus[0].type.models[decode.model]
    weights_mib = 2.0 * 6_738_415_616 / 2**20
    cache_mib = (192 + 160) * 2 * 2 * 32 * 4096 / 2**20
    assert model.memory_mib(3) == pytest.approx(CONTEXT_MIB + weights_mib + 3 * cache_mib)
    assert any(
        "memory of llama-7b: 13,353 MiB" in note and "0.5 MiB of KV cache per token" in note for note in table.notes
    )


def test_language_models_and_other_models_share_a_table(tmp_path: Path) -> None:
    latencies = profile()
    model = latencies.splitlines()[1].split(",")[0]
    gpus = "gpu,price_per_hour\na100-llm,3\n"
    table: Instance = tabulated(tmp_path, CHAT, f"tags,{model},20,200,,,,", gpus=gpus, latencies=latencies).instance

    assert [workload.id for workload in table.workloads] == ["tags", "chat/prefill", "chat/decode"]
    assert set(table.gpus[0].type.models) == {workload.model for workload in table.workloads}
    assert instance_from_json(instance_to_json(table)) == table


@pytest.mark.parametrize(
    ("row", "gpus", "problem"),
    [
        ("chat,llama-7b,8,,192,,500,40", "gpu\na100-llm\n", "column output_tokens: is empty"),
        ("chat,llama-7b,8,100,192,160,500,40", "gpu\na100-llm\n", "column slo_ms: is given"),
        ("chat,llama-7b,8,100,,,,", "gpu\na100-llm\n", "column prompt_tokens: is empty; llama-7b is a language model"),
        ("chat,resnet50,8,,,,,", "gpu\na100\n", "column slo_ms: is empty"),
        ("chat,llama-70b,8,,192,160,500,40", "gpu\na100-llm\n", "replicas on several GPUs"),
        ("chat,llama-7b,8,,192,160,500,40", "gpu\na100\n", "column model: "),
        ("chat,llama-7b,8,,192,9000,500,40", "gpu\na100-llm\n", "column output_tokens: make 9192 with the prompt"),
        ("chat,llama-7b,8,,192,160,30,40", "gpu\na100-llm\n", "column tpot_ms: is 40"),
        ("chat,llama-7b,8,,192,1.5,500,40", "gpu\na100-llm\n", "column output_tokens"),
        ("chat,llama-7b,8,,192,160,500,40", "gpu\na100-mig\n", "not planned on MIG instances"),
        (
            "chat,llama-13b,8,,192,160,500,40",
            "gpu,memory_mib\na100-llm,24576\n",
            "llama-13b needs 25,601 MiB for weights and the cache of one request, and a100-llm has 24,576 MiB",
        ),
    ],
)
def test_a_wrong_row_is_refused_in_one_line(tmp_path: Path, row: str, gpus: str, problem: str) -> None:
    with pytest.raises(InputError) as refusal:
        tabulated(tmp_path, row, gpus=gpus)

    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)
