"""Needs of gpulet's figures and tables: each states the margins of its runs."""

from collections.abc import Iterator

import pytest

from heuristics.gpulet.best_fit import GuidedSelfTuning
from heuristics.gpulet.state import Gpulets
from instances.view import View
from reports.experiments.gpulet import VARIANTS
from reports.need import Need
from reports.papers import gpulet_pairs, gpulet_rates, gpulet_scenarios, gpulet_served, gpulet_text
from reports.papers.gpulet_schedulers import with_margins
from reports.papers.gpulet_self_tuning import cut_by_efficient_share_alone
from reports.runs import the_instance

FIGURES = [
    figure for module in (gpulet_pairs, gpulet_rates, gpulet_scenarios, gpulet_served) for figure in module.FIGURES
]


def needs() -> Iterator[tuple[str, Need]]:
    """Yield the needs of the figures and of the table of plans, with names."""
    for figure in FIGURES:
        yield from ((figure.name, need) for need in figure.needs)
    yield from ((label, Need("", (scheduler,), parameters=texts)) for label, (scheduler, texts) in VARIANTS.items())


def test_every_need_states_the_margins(subtests: pytest.Subtests) -> None:
    """Without it, later runs with the margins of the published code would replace those with the printed margins."""
    for name, need in needs():
        with subtests.test(name, need=need):
            (scheduler,) = need.schedulers
            assert f"{scheduler}.margins=printed" in need.parameters
            assert f"{scheduler}.margins=glet-code" in with_margins(need).parameters


def test_the_text_has_as_many_pairs_and_the_models_of_its_table_by_memory() -> None:
    ours = {claim.what: claim.ours for claim in gpulet_text.TEXT}

    (pairs,) = (query for what, query in ours.items() if "pairs of models and batches" in what)
    assert pairs(None) == (250, 1250, 2500)
    (by_memory,) = (query for what, query in ours.items() if "Table 4" in what)
    assert by_memory(None) == ("mob, be, le, ssd", "nas, goo, den, res", "vgg")
    (combinations,) = (query for what, query in ours.items() if "combinations" in what)
    assert combinations(None) == (35,)


def test_the_most_efficient_share_alone_splits_a_rate_that_needs_a_whole_gpu() -> None:
    instance = the_instance("gpulet-arxiv-game").scaled(6.735)
    (pool,) = instance.gpus
    view = View.of(instance, pool.type)
    resnet50 = instance.workload_index["resnet50"]

    def shares_pct(gpulets: Gpulets | None) -> list[float]:
        assert gpulets is not None
        of_resnet50 = (gpulets.slots > 0) & (gpulets.workload[:, 0] == resnet50)
        return sorted(map(pool.type.share_pct, gpulets.units[of_resnet50].tolist()))

    assert shares_pct(GuidedSelfTuning().cut(view, 4)) == [100.0]
    assert shares_pct(cut_by_efficient_share_alone(view, 4)) == [40.0, 60.0]


def test_a_rate_beyond_all_gpus_has_no_plan_by_the_most_efficient_share_alone() -> None:
    instance = the_instance("gpulet-arxiv-game").scaled(100.0)
    assert cut_by_efficient_share_alone(View.of(instance, instance.gpus[0].type), 4) is None
