"""Needs of gpulet's figures and tables: each states the margins of its runs."""

from collections.abc import Iterator

import pytest

from reports.experiments.gpulet import VARIANTS
from reports.need import Need
from reports.papers import gpulet_pairs, gpulet_rates, gpulet_scenarios, gpulet_served
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
