"""Needs of gpulet's figures and tables: each states the margins of its runs."""

from collections.abc import Iterator

import pytest

from reports.experiments.gpulet import VARIANTS
from reports.need import Need
from reports.papers import gpulet_pairs, gpulet_rates, gpulet_scenarios, gpulet_served, gpulet_text
from reports.papers.gpulet_schedulers import with_margins

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
