"""Family pool-mix: unchanging workloads, options that change one property each, and servable workloads."""

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run
from bench.judging.judge import judge
from heuristics.baselines.local_search import LocalSearch
from instances import GpuPool, InputError, Instance, Objective, Partition, SloRule, Workload
from instances.catalogue import gpu_type, gpu_type_names
from instances.one_gpu import Resident, fit_gpu
from instances.performance import performance_model_names
from instances.performance.table import TABLE
from instances.pool_mix import REFERENCES, RateLaw, SloLaw, models_of, parse_pool, pool_mix
from instances.suites import suite
from instances.view import View
from tests.frozen import frozen_type

CALIBRATED = ("t4", "a100-inss")
"""Types whose references are for frozen coefficients."""
RULES = (SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE)


def digest(instance: Instance) -> str:
    rows = [[w.id, w.model, w.slo_ms, w.rate_rps] for w in instance.workloads]
    return sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()[:16]


# A changed hash is a changed benchmark: results published under the same name would no longer be comparable.
@pytest.mark.parametrize(
    ("size", "seed", "pool", "slo", "rates", "expected"),
    [
        (1, 0, "v100", "mixed", "even", "8c16ff117a628c6a"),
        (80, 0, "v100,t4,a100-inss", "mixed", "even", "428957fe87fd1b82"),
        (200, 3, "a100,rtx2080ti", "tight", "zipf", "727484cfb293cf49"),
        (160, 2, "t4:4", "loose", "few-large", "73503b589eb3858b"),
        (10000, 1, "v100,t4", "mixed", "zipf", "e9c5a2156be6eae7"),
        (50, 5, "a100-inss", "tight", "even", "f776882590025050"),
        (50, 5, "rtx2080ti", "mixed", "few-large", "e0ad88db054210ec"),
    ],
)
def test_workloads_of_the_options_never_change(
    size: int, seed: int, pool: str, slo: str, rates: str, expected: str
) -> None:
    assert digest(pool_mix(size, seed, pool, slo=slo, rates=rates)) == expected


def test_every_model_of_every_gpu_divided_into_shares_has_a_reference() -> None:
    shared = [gpu for gpu in map(gpu_type, gpu_type_names()) if gpu.partition is Partition.SHARES and gpu.models]

    assert {gpu.name: set(gpu.models) for gpu in shared} == {name: set(rows) for name, rows in REFERENCES.items()}
    assert all(slo >= 2 and rate >= 50 for rows in REFERENCES.values() for slo, rate in rows.values())


@pytest.mark.parametrize("gpu", REFERENCES)
def test_one_gpu_of_the_first_type_serves_any_workload(gpu: str, subtests: pytest.Subtests) -> None:
    """The tightest SLO is tried at the highest and at lower rates; a longer SLO only raises the budgets.

    The references are constants, valid for the coefficients for which they were chosen.
    """
    gpu_of_references = frozen_type(gpu) if gpu in CALIBRATED else gpu_type(gpu)
    for performance_model, rule in product(performance_model_names(), RULES):
        with subtests.test(performance_model=performance_model, rule=rule):
            for model, (slo_ms, largest_rps) in REFERENCES[gpu].items():
                base = pool_mix(1, 0, [GpuPool(gpu_of_references)], performance_model=performance_model, slo_rule=rule)
                rates = [largest_rps, largest_rps * 0.7, largest_rps * 0.45, largest_rps * 0.2, 1.0]
                workloads = tuple(Workload(f"w{n}", model, float(slo_ms), rate) for n, rate in enumerate(rates))
                instance = replace(base, workloads=workloads)
                view = View.of(instance, instance.gpus[0].type)
                for position, workload in enumerate(workloads):
                    batches = range(1, gpu_of_references.models[model].max_batch + 1)
                    fits = any(fit_gpu(view, [Resident(position, batch, workload.rate_rps)]) for batch in batches)
                    assert fits, workload


def test_the_slo_law_changes_only_slos_and_the_rate_law_only_rates() -> None:
    base = pool_mix(200, 4, "v100,t4:9")
    for slo in SloLaw:
        other = pool_mix(200, 4, "v100", slo=slo).workloads
        assert [(w.model, w.rate_rps) for w in other] == [(w.model, w.rate_rps) for w in base.workloads]
    for rates in RateLaw:
        other = pool_mix(200, 4, "v100", rates=rates, performance_model="inss").workloads
        assert [(w.model, w.slo_ms) for w in other] == [(w.model, w.slo_ms) for w in base.workloads]


def ratios(slo: str, rates: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the SLOs and rates of a large mix as multiples of their references."""
    workloads = pool_mix(20_000, 0, "a100-inss", slo=slo, rates=rates).workloads
    references = np.array([REFERENCES["a100-inss"][w.model] for w in workloads])
    drawn = np.array([(w.slo_ms, w.rate_rps) for w in workloads]) / references
    return drawn[:, 0], drawn[:, 1]


def test_slos_and_rates_follow_their_laws() -> None:
    for rates, tight in ((RateLaw.EVEN, 1.0), (RateLaw.ZIPF, 0.0), (RateLaw.FEW_LARGE, 0.5)):
        slo, rate = ratios({1.0: SloLaw.TIGHT, 0.0: SloLaw.LOOSE, 0.5: SloLaw.MIXED}[tight], rates)
        assert np.mean(slo <= 1.5) == pytest.approx(tight, abs=0.02)
        assert np.mean((slo >= 3.0) & (slo <= 6.0)) == pytest.approx(1.0 - tight, abs=0.02)
        assert rate.max() <= 1.0
    even, few, zipf = (ratios(SloLaw.MIXED, rates)[1] for rates in (RateLaw.EVEN, RateLaw.FEW_LARGE, RateLaw.ZIPF))
    assert np.mean(even) == pytest.approx(0.275, abs=0.01)
    assert np.mean(few >= 0.49) == pytest.approx(1 / 8, abs=0.01)
    assert np.mean((few > 0.1) & (few < 0.49)) == pytest.approx(0.0, abs=0.002)
    # The number of workloads with at least a given rate is inversely proportional to the rate.
    for least in (0.04, 0.1, 0.3):
        assert np.mean(zipf >= least) == pytest.approx((1 / least - 1) / 49, rel=0.15)


@given(
    st.integers(1, 60),
    st.integers(0, 2**40),
    st.lists(st.sampled_from(sorted(REFERENCES)), min_size=1, max_size=4, unique=True),
    st.sampled_from(SloLaw),
    st.sampled_from(RateLaw),
    st.sampled_from(performance_model_names()),
)
@settings(max_examples=40)
def test_every_combination_builds_the_same_instance_again(
    size: int, seed: int, types: Sequence[str], slo: SloLaw, rates: RateLaw, performance_model: str
) -> None:
    first, second = (
        pool_mix(size, seed, ",".join(types), slo=slo, rates=rates, performance_model=performance_model)
        for _ in range(2)
    )

    assert first.fingerprint == second.fingerprint
    assert len(first.workloads) == size
    for workload in first.workloads:
        slo_ms, most_rps = REFERENCES[types[0]][workload.model]
        assert slo_ms <= workload.slo_ms <= 6 * slo_ms
        assert 1 <= workload.rate_rps <= most_rps
        assert workload.slo_ms.is_integer()
        assert workload.rate_rps.is_integer()


def test_pools_are_parsed() -> None:
    assert [(p.type.name, p.count) for p in parse_pool("v100, t4:8,a100-inss:999999")] == [
        ("v100", None),
        ("t4", 8),
        ("a100-inss", 999_999),
    ]


def test_a_mix_has_the_models_that_all_types_share() -> None:
    assert models_of(parse_pool("v100,t4,a100-inss")) == ("alexnet", "resnet50", "vgg19")
    assert models_of(parse_pool("v100,t4,a100,a100-inss")) == ("resnet50", "vgg19")
    assert {w.model for w in pool_mix(40, 0, "v100,t4", models=["ssd", "ssd"]).workloads} == {"ssd"}


def test_an_instance_states_its_options() -> None:
    plain = pool_mix(3, 9)
    customised = pool_mix(
        3, 9, "v100:2,t4", slo="tight", rates="zipf", performance_model="hybrid", models=["ssd"], slo_rule=RULES[1]
    )

    assert (plain.name, plain.gpus, plain.seed) == ("pool-mix-3-s9-v100", (GpuPool(gpu_type("v100")),), 9)
    assert customised.name == "pool-mix-3-s9-v100x2-t4-tight-zipf-hybrid-ssd"
    assert (customised.performance_model, customised.slo_rule, customised.objective) == (
        "hybrid",
        SloRule.ASSEMBLY,
        Objective.COST,
    )
    assert (
        customised.provenance
        == "generated: family pool-mix, 3 workloads of ssd, seed 9, SLOs and rates for v100: tight, zipf"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size: 0 workloads; expected 1 to 100,000"),
        ({"pool": ""}, 'pool: "" is no pool of GPUs; expected TYPE or TYPE:COUNT with a count from 1 to 999,999'),
        ({"pool": "v100:"}, 'pool: "v100:" is no pool'),
        ({"pool": "v100:0"}, 'pool: "v100:0" is no pool'),
        ({"pool": "v100:1000000"}, 'pool: "v100:1000000" is no pool'),
        ({"pool": "v100:²"}, 'pool: "v100:²" is no pool'),
        ({"pool": "v10"}, 'pool: unknown GPU type "v10"; did you mean "v100"?'),
        ({"pool": "t4,v100,t4:3"}, 'pool: names "t4" twice; expected each GPU type once'),
        ({"pool": "a100-mig"}, "pool: a100-mig is cut into MIG instances; expected v100, t4, a100,"),
        ({"pool": "v100,t4", "models": ["vgg16"]}, 'models: unknown model on v100 "vgg16"; did you mean "vgg19"?'),
        ({"slo": "tigth"}, 'slo: unknown distribution of the SLOs "tigth"; did you mean "tight"?'),
        ({"rates": "zip"}, 'rates: unknown distribution of the rates "zip"; did you mean "zipf"?'),
        ({"performance_model": "ins"}, 'performance_model: unknown performance model "ins"; did you mean "inss"?'),
        (
            {"pool": "v100:2,t4", "objective": Objective.GOODPUT},
            "pool: has no count for t4; goodput requires one, such as t4:8",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        pool_mix(**{"size": 3, "seed": 0} | options)  # type: ignore[arg-type]

    assert message in str(caught.value)


MIXES = [instance for name in ("hetero", "large", "hard") for instance in suite(name).build()]


def test_suites_cover_types_objectives_and_performance_models() -> None:
    hetero = suite("hetero").build()

    assert {len(instance.gpus) for instance in hetero} == {2, 3, 4}
    assert {instance.performance_model for instance in hetero} == set(performance_model_names()) - {TABLE}
    for name in ("hetero", "hard"):
        found = {instance.objective for instance in suite(name).build()}
        assert found == {Objective.COST, Objective.CAPACITY, Objective.GOODPUT, Objective.SCALE}
    assert all(count in {pool.count is None for i in hetero for pool in i.gpus} for count in (True, False))


@pytest.mark.parametrize("instance", {one.name: one for one in MIXES}.values(), ids=lambda one: one.name)
def test_a_greedy_plan_fits_on_the_pools_of_the_suites(instance: Instance) -> None:
    plan = LocalSearch(rounds=0).schedule(instance, Run()).plan

    assert plan is not None
    assert judge(plan, instance).feasible
