"""Language models: their catalogue entry, its held-out errors, and the DNN models that services add to a GPU type."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from instances import GpuPool, InputError, Instance, Objective
from instances.calibration.a100_llm import FILE, FOLDER, a100_llm
from instances.catalogue import gpu_type
from instances.files import instance_from_json, instance_to_json
from instances.gpu import LanguageModel
from instances.instance import instance_of_services
from instances.least_shares import premises_satisfied
from instances.measurements import read_passes
from instances.services import Service, gpu_for_services
from instances.suites import suite
from instances.tables import gpu_tables
from instances.workload import service_workloads

MEASURED = Path(os.environ.get("GPUSHARE_MEASUREMENTS", "nowhere"))
A100 = gpu_type("a100-llm")
# Name, model, tokens of a prompt and of its output, and in ms the largest times to first token and per output token
CHAT = Service("chat", "llama-7b", 128, 128, 500.0, 50.0)
SUMMARY = Service("summary", "llama-13b", 384, 64, 1000.0, 80.0)


def mix(*services: Service, rate_rps: float = 2.0, gpu: str = "a100-llm", **fields: object) -> Instance:
    return instance_of_services("mix", [(s, rate_rps) for s in services], [GpuPool(gpu_type(gpu))], **fields)


# --- The catalogue entry ---


def test_every_left_out_sm_level_is_predicted_within_four_percent() -> None:
    """The next test computes the same errors from the measurements."""
    residual = A100.provenance.residual
    levels = [residual[f"sm_{level}_left_out_rel_mean"] for level in (40, 50, 60, 70, 80, 90)]

    assert max(levels) <= 0.04
    assert all(
        f"{model}_left_out_{phase}_rel_mean" in residual
        for model in A100.language_models
        for phase in ("prefill", "decoding")
    )


@pytest.mark.skipif(not (MEASURED / FOLDER / FILE).is_file(), reason="GPUSHARE_MEASUREMENTS has no language models")
def test_the_entry_and_its_held_out_errors_follow_from_the_measurements() -> None:
    refitted = a100_llm(MEASURED)

    assert refitted.provenance.residual == pytest.approx(A100.provenance.residual, rel=1e-9)
    assert replace(refitted, provenance=A100.provenance) == A100


@pytest.mark.parametrize("model", A100.language_models.values(), ids=lambda model: model.name)
def test_passes_take_longer_with_more_work_and_a_smaller_share(model: LanguageModel) -> None:
    prefill = np.array(model.prefill_ms)  # [prompt tokens][share]
    decode = np.array(model.decode_ms)  # [context tokens][batch][share]

    assert np.all(np.diff(prefill, axis=0) >= 0)
    assert np.all(np.diff(prefill, axis=1) <= 0)
    assert np.all(np.diff(decode, axis=0) >= 0)
    assert np.all(np.diff(decode, axis=1) >= 0)
    assert np.all(np.diff(decode, axis=2) <= 0)


def test_memory_is_as_worked_out_by_hand() -> None:
    seven = A100.language_models["llama-7b"]

    assert seven.cache_mib_per_token == 0.5
    assert seven.weights_mib == pytest.approx(2 * 6_738_415_616 / 2**20)
    decode = gpu_for_services(A100, [CHAT]).models[CHAT.decode_model]
    context_mib, tokens = 500, 128 + 128  # of CUDA; of a request's prompt and output
    assert decode.memory_mib(8) == pytest.approx(context_mib + seven.weights_mib + 8 * tokens * 0.5)


def test_measured_passes_on_several_gpus_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "llama.csv"
    head = "model,tensor_parallel,sm_pct,batch,sequence_length,phase,latency_ms\n"
    file.write_text(head + "m,1,30,2,64,prefill,5\nm,2,30,2,64,prefill,3\n")

    (only,) = read_passes(file)
    assert (only.batch, only.length, only.share_pct, only.latency_ms) == (2, 64, 30.0, 5.0)
    file.write_text(head + "m,1,30,2,64,training,5\n")
    with pytest.raises(InputError, match='line 2: phase is "training"; expected prefill or decoding'):
        read_passes(file)


# --- The table ---


def test_times_interpolate_the_table() -> None:
    """They are linear in the batch, and linear in the inverse of the share."""
    gpu = gpu_for_services(A100, [CHAT, SUMMARY])
    tables, rows = gpu_tables(gpu, "table"), list(gpu.models)
    seven, whole_gpu = A100.language_models["llama-7b"], gpu.share_units
    prefill, decode = rows.index(CHAT.prefill_model), rows.index(CHAT.decode_model)
    prefill_ms = seven.prefill_ms[seven.prompt_tokens.index(4 * 128)]  # four prompts of 128 tokens
    decode_ms = seven.decode_ms[seven.context_tokens.index(128 + 128)]

    assert tables.active_ms[prefill, 4, whole_gpu] == prefill_ms[-1]
    assert tables.active_ms[decode, 16, whole_gpu] == pytest.approx(decode_ms[seven.batch.index(16)][-1])
    middle = (tables.active_ms[decode, 16] + tables.active_ms[decode, 32]) / 2
    assert tables.active_ms[decode, 24] == pytest.approx(middle)
    at_50_ms, at_60_ms = (prefill_ms[seven.share_pct.index(share_pct)] for share_pct in (50.0, 60.0))
    share_pct = 100 * 29 / whole_gpu
    part = (1 / 50 - 1 / share_pct) / (1 / 50 - 1 / 60)
    assert tables.active_ms[prefill, 4, 29] == pytest.approx(at_50_ms + part * (at_60_ms - at_50_ms))


def test_nothing_is_extrapolated_below_the_measured_shares() -> None:
    """The least measured share is 30 %, between 16 and 17 of 54 units; smaller shares take longer than any SLO."""
    tables = gpu_tables(gpu_for_services(A100, [CHAT]), "table")

    assert tables.permitted[0] == 17
    assert tables.active_ms[:, 1:, 16].min() > 1e9 > tables.active_ms[:, 1:2, 17].max()
    assert premises_satisfied(tables)


# --- Services ---


def test_tables_do_not_depend_on_the_order_of_the_services() -> None:
    first, other = gpu_for_services(A100, [CHAT, SUMMARY]), gpu_for_services(A100, [SUMMARY, CHAT])
    assert list(first.models) == list(other.models)
    assert gpu_tables(first, "table") is gpu_tables(other, "table")


def test_a_service_becomes_prefill_and_decode() -> None:
    prefill, decode = service_workloads(CHAT, 3.0)

    # The first token takes a decoding step too: 500 - 50 ms are left for prefill.
    assert (prefill.id, prefill.slo_ms, prefill.rate_rps, prefill.steps) == ("chat/prefill", 450.0, 3.0, 0)
    assert (decode.id, decode.slo_ms, decode.rule, decode.steps) == ("chat/decode", 50.0, "continuous", 128)


def test_an_instance_with_services_round_trips_through_its_file() -> None:
    instance = mix(CHAT, SUMMARY, latency_buffer=1.2)
    data = instance_to_json(instance)

    assert data["services"][0] == {  # type: ignore[index]
        "service": "chat", "model": "llama-7b", "rate_rps": 2.0,
        "prompt_tokens": 128, "output_tokens": 128, "ttft_ms": 500.0, "tpot_ms": 50.0,
    }  # fmt: skip
    restored = instance_from_json(data)
    assert restored == instance
    assert restored.fingerprint == instance.fingerprint
    assert instance.scaled(2.0).workloads[1].rate_rps == 4.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "llama-8b"}, r'services\[0\]\.model: unknown language model on a100-llm "llama-8b"; did you mean'),
        ({"prompt_tokens": 16}, r"services\[0\]\.prompt_tokens: is 16; llama-7b was measured from 32 on"),
        ({"output_tokens": 400}, r"services\[0\]\.output_tokens: make 528 with the prompt; .* from 32 to 512 tokens"),
        ({"tpot_ms": 500.0}, r"services\[0\]\.tpot_ms: is 500; expected less than ttft_ms"),
        ({"rate_rps": 0}, r"services\[0\]\.rate_rps: is 0; expected a number from 1e-200 to 1e\+200"),
    ],
)
def test_a_wrong_service_is_refused_with_its_field(change: dict[str, object], message: str) -> None:
    data = instance_to_json(mix(CHAT))
    data["services"][0].update(change)  # type: ignore[index]
    with pytest.raises(InputError, match=message):
        instance_from_json(data)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"performance_model": "inss"}, 'performance_model: is "inss"; language-model services need "table"'),
        (
            {"objective": "throughput", "throughput_of": "goodput"},  # ``Objective.GOODPUT`` in a file
            'objective: is "throughput"; language-model services',
        ),
        ({"services": []}, "workloads: is empty"),
        (
            {"workloads": [{"id": "w", "model": "alexnet", "slo_ms": 9, "rate_rps": 1}]},
            r"workloads\[0\]\.model: a100-llm has language models only",
        ),
    ],
)
def test_a_wrong_instance_of_services_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        instance_from_json(instance_to_json(mix(CHAT)) | change)


def test_a_service_listed_twice_is_refused() -> None:
    data = instance_to_json(mix(CHAT))
    data["services"] = [*data["services"], *data["services"]]  # type: ignore[misc]
    with pytest.raises(InputError, match=r"services\[1\]\.service: "):
        instance_from_json(data)


def test_services_need_the_table_and_cost_or_scale() -> None:
    with pytest.raises(InputError, match='language-model services need "table"'):
        mix(CHAT, performance_model="inss")
    with pytest.raises(InputError, match="expected cost or scale"):
        mix(CHAT, objective=Objective.GOODPUT)


def test_slots_of_services_take_no_turns() -> None:
    assert not mix(CHAT).takes_turns


def test_instances_without_services_keep_their_fingerprints() -> None:
    (plain,) = suite("igniter-3").build()
    assert plain.fingerprint == "4d89980022f2b8f09a6af1f202da57c3b83b31b9dc398dcbfee53b3d44ed681b"


def test_dropping_is_the_default_and_is_not_written() -> None:
    plain = suite("igniter-3").build()[0]
    serving_all = replace(plain, dropping=False)

    assert "dropping" not in instance_to_json(plain)
    assert instance_to_json(serving_all)["dropping"] is False
    assert serving_all.fingerprint != plain.fingerprint
    assert instance_from_json(instance_to_json(serving_all)).fingerprint == serving_all.fingerprint


def test_eighths_differ_in_their_shares_only() -> None:
    eighths = gpu_type("a100-eighths")
    assert replace(eighths, name=A100.name, allowed_shares=A100.allowed_shares) == A100
    assert eighths.allowed_shares == tuple(54 * n // 8 for n in range(3, 9))  # two eighths are less than was measured
