"""Certificates of MIG instances that the checker refuses, and the first failing step that it names."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from bench.certificate.checking import check
from bench.certificate.exhaustive import MOST_WORKLOADS
from bench.certificate.failures import NotProvenError
from bench.certificate.proving import certificate
from instances import GpuPool, Instance, Objective, Workload
from instances.suites import suite
from tests.bench.certificate.claims import asking, claiming, duals
from tests.bench.certificate.mig.made import Data, proven, said
from tests.formulations.tiny_mig import tiny_gpu, tiny_instance


@cache
def two_pools_certificate() -> Data:
    """Return a valid certificate for 13 req/s on two GPUs at $1 (4 req/s each) and others at $1.50 (5 req/s each)."""
    first, second = tiny_gpu("first", 1.0, [[1.0, 2.0, 4.0]]), tiny_gpu("second", 1.5, [[2.0, 3.0, 5.0]])
    return proven(tiny_instance([GpuPool(first, 2), GpuPool(second)], [13.0]))


def with_proof(**fields: Any) -> Data:
    proof = {
        "kind": "slices",
        "unit": 100,
        "workloads": [350],
        "gpus": [0, 0],
        "slices": [[25, 50, 100], [50, 75, 125]],
    }
    return {**two_pools_certificate(), "claim": {"bound": "3.5", "plan_class": "split"}, "proof": proof | fields}


def test_the_base_is_proven() -> None:
    assert two_pools_certificate()["claim"]["bound"] == "3.5"
    assert said(two_pools_certificate()) == "proven: $3.5 per hour, no split plan costs less"
    assert said(with_proof(workloads=[325])) == "proven: $3.5 per hour, no split plan costs less"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"workloads": [326]}, "MIG instances that serve w0 are worth less than its dual"),
        ({"workloads": [325], "slices": [[24, 50, 100], [50, 75, 125]]}, "MIG instances that serve w0 are worth less"),
        ({"workloads": [325], "slices": [[34, 50, 100], [50, 75, 125]]}, "a layout of first is worth 102, more than"),
        ({"workloads": [325], "slices": [[25, 50, 100], [51, 75, 125]]}, "a layout of second is worth 153, more than"),
        ({"workloads": [325], "gpus": [0, 1]}, "second has a dual, but no limit on its GPUs"),
        ({"workloads": [325], "gpus": [-1, 0]}, "a dual of first or of its MIG instances is negative"),
        ({"workloads": [325], "gpus": [100, 0]}, "the proof yields 1.5, the claim says 3.5"),
        ({"slices": [[25, -50, 100], [50, 75, 125]]}, "a dual of first or of its MIG instances is negative"),
        ({"workloads": [-1]}, "the dual of a class of workloads is negative"),
        ({"workloads": []}, "0 duals for 1 classes of workloads"),
        ({"workloads": [325, 0]}, "2 duals for 1 classes of workloads"),
        ({"gpus": [0]}, "1 duals for 2 GPU types"),
        ({"slices": [[25, 50, 100]]}, "1 duals for 2 lists of sizes"),
        ({"slices": [[25, 50, 100], [50, 75]]}, "2 duals for 3 sizes of second"),
        ({"workloads": [300]}, "the proof yields 3, the claim says 3.5"),
        ({"workloads": [325], "unit": 101}, "the proof yields 3.5, the claim says"),
    ],
)
def test_changed_duals_are_refused(fields: dict[str, Any], sentence: str) -> None:
    data = with_proof(**fields)
    if "unit" in fields:
        data["claim"] = {"bound": "4", "plan_class": "split"}
        data["plan"] = None

    assert said(data).startswith(f"not proven: {sentence}")


def cheaper_gpus(data: Data) -> None:
    data["instance"]["catalogue"]["second"]["price_per_hour"] = 1.25


def slower_slices(data: Data) -> None:
    data["instance"]["catalogue"]["second"]["mig"]["models"]["m0"][0][3] = 2.5


def another_layout(data: Data) -> None:
    data["instance"]["catalogue"]["first"]["mig"]["slices"][1]["span"] = 2  # a 1 fits beside the 2


def another_start(data: Data) -> None:
    data["instance"]["catalogue"]["first"]["mig"]["slices"][0]["starts"].append(3)  # four 1s fit


def lower_rate(data: Data) -> None:
    data["instance"]["workloads"][0]["rate_rps"] = 12.0


def another_workload(data: Data) -> None:
    data["instance"]["workloads"].append(data["instance"]["workloads"][0] | {"id": "another", "rate_rps": 1.0})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (cheaper_gpus, "a layout of second is worth 150, more than the 125 of the GPU"),
        (slower_slices, "MIG instances that serve w0 are worth less than its dual"),
        (another_start, None),
        (another_layout, None),
        (lower_rate, "MIG instances that serve w0 are worth less than its dual"),
        (another_workload, "1 duals for 2 classes of workloads"),
    ],
)
def test_changed_instances_are_refused(change: Callable[[Data], None], sentence: str | None) -> None:
    data = copy.deepcopy(with_proof(workloads=[325])) | {"plan": None}
    if sentence is None:  # duals with which any further slice in a layout is too much
        data["proof"]["slices"][0] = [33, 68, 100] if change is another_layout else [33, 50, 100]
        sentence = "a layout of first is worth"
        data["proof"]["workloads"] = [0]
        assert "a layout" not in said(data)
    change(data)

    assert said(data).startswith(f"not proven: {sentence}")


def test_a_missing_workload_is_noticed() -> None:
    data = copy.deepcopy(proven(suite("parvagpu").build()[1]))
    assert data["proof"]["kind"] == "slices"
    del data["instance"]["workloads"][3]

    assert said(data | {"plan": None}) == "not proven: 11 duals for 10 classes of workloads"
    assert said(data).startswith("not proven: GPU ")  # its plan serves the workload


def test_more_gpus_of_a_type_with_a_dual_prove_less() -> None:
    """Two GPUs at $0.50 serve 8 of 13 req/s, and one at $1.50 serves 5; with four at $0.50, the bound falls."""
    first, second = tiny_gpu("first", 0.5, [[1.0, 2.0, 4.0]]), tiny_gpu("second", 1.5, [[2.0, 3.0, 5.0]])
    data = proven(tiny_instance([GpuPool(first, 2), GpuPool(second)], [13.0]))
    data["proof"] = with_proof(workloads=[325], gpus=[50, 0])["proof"]
    assert said(data) == "proven: $2.5 per hour, no split plan costs less"
    data["instance"]["gpus"][0]["count"] = 4

    assert said(data) == "not proven: the proof yields 1.5, the claim says 2.5"


# --- Claims and kinds of proof ---


def test_claims_about_mig_instances_are_of_split_plans_under_cost_only() -> None:
    data = two_pools_certificate()
    for claim in ({"plan_class": "spatial"}, {"plan_class": "split", "parts": 20}):
        changed = data | {"claim": {"bound": "3.5"} | claim, "plan": None}
        assert said(changed) == "not proven: on MIG instances, a claim covers split plans with parts of any size"
    scale = copy.deepcopy(data) | {"plan": None}
    scale["instance"]["objective"] = "scale"
    sentence = "not proven: GPUs that are cut into MIG instances have no certificates under scale"
    assert said(scale) == sentence


def test_a_proof_of_another_kind_of_gpus_is_refused() -> None:
    refusal = "not proven: on MIG instances, a proof has the instances' duals or is exhaustive"
    assert said(two_pools_certificate() | {"proof": {**duals(325), "gpus": [0, 0]}}) == refusal
    leaf = {"workloads": [325], "gpus": [0, 0]}
    assert said(two_pools_certificate() | {"proof": {"kind": "tree", "unit": 100, "nodes": [leaf]}}) == refusal
    slices = {"kind": "slices", "unit": 1, "workloads": [1], "gpus": [0], "slices": [[1]]}
    shares = claiming(asking(Workload("w", "alexnet", 30.0, 100.0)), "3.06", slices)
    assert (
        said(shares)
        == "not proven: the proof has duals of MIG instances, but the instance's GPUs are not cut into them"
    )


def test_an_exhaustive_proof_is_limited_in_workloads_and_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    exhaustive = {"kind": "exhaustive"}
    instance = suite("parvagpu").build()[1]
    many = {**proven(instance), "proof": exhaustive}
    assert said(many) == "not proven: 11 workloads; an exhaustive proof takes at most 10"
    data = two_pools_certificate() | {"proof": exhaustive}
    assert said(data) == "proven: $3.5 per hour, no split plan costs less"
    for name, most, kind in (
        ("MOST_SETS", 3, "an exhaustive proof over more than 3 sets of cut GPUs"),
        ("MOST_LAYOUTS", 1, "more than 1 layouts of a GPU type"),
        ("MOST_TRIALS", 3, "more than 3 ways to divide MIG instances among the workloads"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"bench.certificate.mig.exhaustive.{name}", most)
            verdict = check(data, "proof")
            assert verdict.given_up
            assert verdict.sentence == f"given up: {kind}"


def without_duals(instance: Instance) -> str:
    with pytest.raises(NotProvenError) as refused:
        certificate(instance, None, [])
    return str(refused.value)


def test_a_run_without_duals_has_a_certificate_only_of_a_few_workloads() -> None:
    assert (
        without_duals(suite("parvagpu").build()[1])
        == f"the run kept no duals, and an exhaustive proof takes at most {MOST_WORKLOADS} workloads"
    )
    assert certificate(suite("parvagpu").build()[0], None, [])["claim"]["bound"] == "8.2"
    assert without_duals(replace(suite("parvagpu").build()[0], objective=Objective.GOODPUT)) == (
        "GPUs that are cut into MIG instances have no certificates under goodput"
    )


def test_a_workload_that_is_never_in_time_is_proven_without_duals() -> None:
    instance = suite("parvagpu").build()[1]
    slow = replace(instance, workloads=(*instance.workloads[1:], replace(instance.workloads[0], slo_ms=10.0)))

    data = certificate(slow, None, [])

    assert data["claim"]["bound"] == "none"
    assert said(data) == "proven: no split plan exists"
    data["instance"]["workloads"][-1]["slo_ms"] = 10_000.0
    assert said(data) == "not proven: the proof does not exclude every plan"


def test_duals_of_other_mig_sizes_are_refused() -> None:
    with pytest.raises(NotProvenError, match="the run has duals of other MIG sizes than its GPU types have"):
        certificate(suite("parvagpu").build()[1], None, [{"workloads": [], "gpus": [], "slices": [[1.0]]}])
