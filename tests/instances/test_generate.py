"""Generated instances: unchanging for a seed, and within the ranges of their family."""

import json
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import InputError, Instance, Objective, SloRule
from instances.budget import latency_budget_ms
from instances.catalogue import gpu_type
from instances.generate import FAMILIES, Range, generate
from instances.tables import gpu_tables


def digest(instance: Instance) -> str:
    rows = [[w.id, w.model, w.slo_ms, w.rate_rps] for w in instance.workloads]
    return sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


# A changed hash is a changed benchmark: results published under the same name would no longer be comparable.
@pytest.mark.parametrize(
    ("family", "size", "seed", "expected"),
    [
        ("igniter-mix", 1, 0, "b860262f0193fb3ab6bafe7aea5029204edafc1a98ac5a55661a166296fd4579"),
        ("igniter-mix", 5, 0, "9eef3ee359966e1f2db9d42a0c9d96e2a95c7fac72a59ea300ef6978b44f2ca6"),
        ("igniter-mix", 4, 1, "be72d4b857b6a248783242b27f0fd5c2ec8e810325cfc732175cf30608df6ade"),
        ("igniter-mix", 1000, 0, "8f5e8fa17e9af661b867df03ed7b1454be8dc62148e0f6e374c30975d32c8f95"),
        ("heavy-mix", 160, 0, "2ed374928211b0165e0a6b2f2b6b7bc034d26800430ad3940af55dd69e036647"),
        ("heavy-mix", 160, 15, "d2248b62f29c8cc74b90888cfbb23af3fc7668605eefef6854edbadef5327533"),
        ("heavy-mix", 160, 7, "2499a2afbf2bbb18fd4af96d9bf259625c608e434114ee6367c776114038f474"),
        ("overload-mix", 160, 1, "a806f883b15274c9addd6b15a08f94994fea32a09f68a9214f181efa7d9a563c"),
        ("overload-mix", 4, 2, "983b97abaaf0c7cae5409e8d88d56e87248731731682b3b7121e855bd90df41c"),
    ],
)
def test_workloads_of_a_family_size_and_seed_never_change(family: str, size: int, seed: int, expected: str) -> None:
    assert digest(generate(family, size, seed)) == expected


@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 200), st.integers(0, 2**40))
@settings(max_examples=60)
def test_workloads_are_within_their_familys_ranges(family: str, size: int, seed: int) -> None:
    instance = generate(family, size, seed)

    assert len(instance.workloads) == size
    for workload in instance.workloads:
        slo_ms, rate_rps = FAMILIES[family].demands[workload.model]
        assert slo_ms.low <= workload.slo_ms <= slo_ms.high
        assert rate_rps.low <= workload.rate_rps <= rate_rps.high
        assert workload.slo_ms.is_integer()
        assert workload.rate_rps.is_integer()


def test_every_model_and_the_ends_of_every_range_occur() -> None:
    family = FAMILIES["igniter-mix"]
    drawn = generate("igniter-mix", 20_000, 0).workloads

    for model, (slo_ms, _) in family.demands.items():
        of_model = [w for w in drawn if w.model == model]
        assert len(of_model) == pytest.approx(5000, rel=0.1)
        assert {w.slo_ms for w in of_model} == set(range(slo_ms.low, slo_ms.high + 1))


@pytest.mark.parametrize("unit", [0.0, 0.999999999999])
def test_a_range_includes_both_ends(unit: float) -> None:
    class Fixed:
        def random(self) -> float:
            return unit

    assert Range(10, 25).draw(Fixed()) == (10 if unit == 0.0 else 25)  # type: ignore[arg-type]


def test_another_seed_size_or_family_is_another_draw() -> None:
    same = generate("igniter-mix", 12, 3)

    assert digest(generate("igniter-mix", 12, 3)) == digest(same)
    assert digest(generate("igniter-mix", 12, 4)) != digest(same)
    assert digest(generate("heavy-mix", 12, 3)) != digest(same)
    assert generate("igniter-mix", 13, 3).workloads[:12] != same.workloads  # not a prefix of a larger instance


def test_an_instance_states_its_family_size_and_seed() -> None:
    plain = generate("heavy-mix", 3, 9)
    named = generate("heavy-mix", 3, 9, Objective.GOODPUT, gpus=2, name="mine")

    assert (plain.name, plain.objective, plain.gpus[0].count) == ("heavy-mix-3-s9", Objective.COST, None)
    assert (named.name, named.objective, named.gpus[0].count) == ("mine", Objective.GOODPUT, 2)
    assert (plain.slo_rule, plain.performance_model, plain.seed) == (SloRule.HALF_SLO, "igniter", 9)
    assert plain.provenance == "generated: family heavy-mix, 3 workloads, seed 9"
    assert [w.id for w in plain.workloads] == ["w1", "w2", "w3"]
    assert plain.workloads == named.workloads


@pytest.mark.parametrize(
    ("family", "size", "message"),
    [
        ("igniter-mx", 3, 'family: unknown instance family "igniter-mx"; did you mean "igniter-mix"?'),
        ("igniter-mix", 0, "size: 0 workloads; expected 1 to 100,000"),
        ("igniter-mix", -2, "size: -2 workloads; expected 1 to 100,000"),
        ("igniter-mix", 100_001, "size: 100001 workloads; expected 1 to 100,000"),
    ],
)
def test_a_wrong_family_or_size_is_refused(family: str, size: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        generate(family, size, 0)

    assert str(caught.value) == message


SERVED_BY_ONE_GPU = [name for name, family in FAMILIES.items() if "one V100 serves any workload" in family.description]


def test_two_families_state_that_one_gpu_serves_any_workload() -> None:
    assert SERVED_BY_ONE_GPU == ["igniter-mix", "heavy-mix"]


@pytest.mark.parametrize("name", SERVED_BY_ONE_GPU)
def test_one_gpu_serves_any_workload_of_these_families(name: str) -> None:
    """Every SLO is met at the highest rate with some batch and share, including throttling."""
    family = FAMILIES[name]
    gpu = gpu_type(family.gpu)
    tables = gpu_tables(gpu, "igniter")
    for model, (slo_ms, rate_rps) in family.demands.items():
        row = list(gpu.models).index(model)
        batch = np.arange(1, gpu.models[model].max_batch + 1)
        excess_w = tables.idle_power_w + tables.power_w[row, 1:, 1:] - tables.max_power_w
        frequency = 1.0 + tables.throttle_per_w * np.maximum(excess_w, 0.0)
        alone_ms = (tables.scheduling_ms[row] + tables.active_ms[row, 1:, 1:]) / frequency
        for slo in range(slo_ms.low, slo_ms.high + 1):
            budget_ms = latency_budget_ms(
                SloRule.HALF_SLO,
                slo,
                rate_rps.high,
                batch,
                tables.transfer_ms[row, batch],
                tables.exposed_ms[row, batch],
            )
            assert np.any(alone_ms <= budget_ms[:, None]), (model, slo)
