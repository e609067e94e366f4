"""Sentences on the number of GPUs that an instance needs, and on the class of an optimum."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Call

from bench.api import Scope
from bench.cli.views.answers import answers, undiscriminating
from bench.ledger.gap import CertifiedBound, Gap
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import Instance
from tests.row_values import plan_of

SCOPE = Scope()
MIXED = Path(__file__).parents[2] / "fixtures" / "eight_a100_four_t4.json"

Answer = Callable[..., list[str]]


@pytest.fixture
def answer(make_row: Callable[..., Row], make_instance: Callable[..., Instance], tmp_path: Path) -> Answer:
    """Return the sentences on a plan with the GPUs ``used`` of each type, at a bound in dollars per hour."""

    def sentences(bound: float | None, used: dict[str, int], claimant: str | None = None, **fields: Any) -> list[str]:
        pools = [{"type": name, "count": None} for name in used]
        service = {"id": "w1", "model": "resnet50", "slo_ms": 150, "rate_rps": 50}
        instance = make_instance(gpus=pools, performance_model="gpulet", workloads=[service])
        prices = {pool.type.name: pool.type.price_per_hour for pool in instance.gpus}
        gpulet = {"share_units": 10, "slots": [{"workload": "w1", "batch": 1, "rate_rps": 1.0}]}
        plan = {"gpus": [{"type": name, "gpulets": [gpulet]} for name, n in used.items() for _ in range(n)]}
        values: dict[str, Any] = {
            "feasible": True,
            "value": sum(prices[name] * number for name, number in used.items()),
            "gpus_used": sum(used.values()),
            "plan": plan_of(plan),
            "plan_class": "spatial",
            "instance_hash": instance.fingerprint,
        }
        row = make_row(**values | fields)
        rows = [row] if fields else [replace(row, key="01", value=1e3, gpus_used=99), row]
        gap = Gap(best=None if bound is None else CertifiedBound(bound, SCOPE, "02"))
        with Ledger(tmp_path / "ledger", create=True) as ledger:
            ledger.add(row, instance)
            if claimant is not None:
                ledger.add(replace(row, key="02", scheduler=claimant), instance)
            return answers(rows, {each.key: gap for each in rows}, ledger)

    return sentences


@pytest.mark.parametrize(
    ("gpus", "bound", "words"),
    [
        (59, 59 * 3.06, "59 GPUs; 58 are proven too few in the class spatial"),
        (59, 59 * 3.06 + 1e-9, "59 GPUs; 58 are proven too few in the class spatial"),
        (66, 58.2 * 3.06, "66 GPUs; 59 are not excluded, 58 are proven too few in the class spatial"),
        (4, 2.5 * 3.06, "4 GPUs; 3 are not excluded, 2 are proven too few in the class spatial"),
        (4, None, "4 GPUs; 3 are not excluded: no certified bound covers the plan (colgen proves bounds)"),
        (4, 0.0, "4 GPUs; 1 is not excluded"),
        (2, 3.07, "2 GPUs; 1 is proven too few in the class spatial"),
        (1, None, "1 GPU; no plan takes fewer"),
    ],
)
def test_with_one_type_the_answer_counts_gpus(answer: Answer, gpus: int, bound: float | None, words: str) -> None:
    assert answer(bound, {"v100": gpus}) == [f"mix: {words}"]


def test_the_bound_of_a_scheduler_from_elsewhere_is_a_claim(answer: Answer) -> None:
    """Bounds of the bench's own schedulers count as proven; those of others do with a checked certificate."""
    claimed = "in the class spatial (by mine, unchecked: bench prove 02)"
    assert answer(6.0, {"v100": 3}, "mine") == [f"mix: 3 GPUs; 2 are not excluded, 1 is claimed too few {claimed}"]
    assert answer(16.0, {"a100": 7, "t4": 2}, "mine") == [
        f"mix: 7 a100 + 2 t4 at $29.752/h; below $16.00/h is claimed impossible {claimed}"
    ]


def test_the_bound_of_a_scheduler_of_the_bench_is_proven(answer: Answer) -> None:
    assert answer(6.0, {"v100": 3}, "colgen@igniter") == [
        "mix: 3 GPUs; 2 are not excluded, 1 is proven too few in the class spatial"
    ]


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        (
            15.9079,
            "below $15.90/h is proven impossible in the class spatial",
        ),  # rounded down, so that it is not more than is proven
        (29.752, "less is proven impossible in the class spatial"),
        (None, "less is not excluded: no certified bound covers the plan (colgen proves bounds)"),
    ],
)
def test_with_several_types_the_answer_is_a_price(answer: Answer, bound: float | None, words: str) -> None:
    assert answer(bound, {"a100": 7, "t4": 2}) == [f"mix: 7 a100 + 2 t4 at $29.752/h; {words}"]


@pytest.mark.parametrize(
    "fields", [{"feasible": False}, {"objective": "scale"}, {"truth": "hybrid"}, {"gpus_used": 0}, {"value": None}]
)
def test_there_is_no_answer_without_a_feasible_plan_under_cost(answer: Answer, fields: dict[str, Any]) -> None:
    assert answer(None, {"v100": 2}, **fields) == []


def test_every_printed_optimum_names_its_class_and_better_plans_of_wider_classes(call: Call, tmp_path: Path) -> None:
    """Eight A100 and four T4: the spatial optimum costs 18.504 $/h, a plan with duty cycles 16.40 $/h."""
    run = f"run --instances {MIXED} --schedulers elastic-partitioning,colgen,cpsat --simulate off --time-limit 5"
    printed = call(run).out
    rows = json.loads(call(f"{run} --format json").out)
    shown = call("show").out
    keyed = call(f"show {rows[1]['key'][:12]}").out
    assert call("report results/ledger.sqlite -o site").code == 0
    pages = [path.read_text() for path in Path("site").rglob("*.html")]

    values = {row["scheduler"]: row["value"] for row in rows}
    assert values["elastic-partitioning"] == pytest.approx(16.4)
    assert {row["status"] for row in rows if row["scheduler"] == "colgen"} == {"optimal"}
    assert values["colgen"] == pytest.approx(18.504)
    note = "optimal (spatial); 16.40 $/h with spatio-temporal plans by elastic-partitioning"
    for text in (printed, shown):
        assert note in text
        assert "eight-a100-four-t4: 4 a100 at $16.40/h; less is not excluded" in text
        assert re.search(r"colgen +optimal \(spatial\) .* ≥ 18\.504 ", text)
    assert "16.40 $/h with spatio-temporal plans by elastic-partitioning" in keyed
    for text in (printed, shown, keyed):
        assert len(re.findall(r"\boptimal\b(?! \(spatial\))", text)) == 0
    (page,) = (text for text in pages if 'id="plans"' in text)
    assert ">optimal (spatial)<" in page
    assert "<dd>16.40 $/h with spatio-temporal plans by elastic-partitioning</dd>" in page
    assert not [text for text in pages if 'data-outcome="optimal"' in text or ">optimal<" in text]


def test_an_instance_that_random_solves_does_not_discriminate(make_row: Callable[..., Row]) -> None:
    best = make_row(key="a", scheduler="colgen", feasible=True, value=6.12, objective="cost", instance="easy")
    lucky = replace(best, key="b", scheduler="random")
    assert undiscriminating([best, lucky]) == ["does not discriminate, since random finds the best value, too: easy"]
    assert undiscriminating([best, replace(lucky, value=9.18)]) == []
    assert undiscriminating([lucky]) == []
