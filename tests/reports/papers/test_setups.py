"""Rows on inputs that are taken from the papers: the instances have the printed values."""

import pytest

from reports.claim import TAKEN_FROM_PAPER, Claim
from reports.papers import gpulet_setup, igniter_plans, igniter_setup, igniter_terms, inss_setup

TAKEN = [
    claim
    for claims in (
        *(igniter_setup.SETUP, igniter_terms.PROFILING, (igniter_plans.HARDWARE,)),
        *(gpulet_setup.SETUP, inss_setup.SETUP, inss_setup.SETTINGS),
    )
    for claim in claims
    if claim.not_comparable == TAKEN_FROM_PAPER
]


@pytest.mark.parametrize("claim", TAKEN, ids=lambda claim: claim.what)
def test_what_is_taken_from_a_paper_has_its_values(claim: Claim) -> None:
    assert claim.ours(None) == pytest.approx(claim.paper)


def test_the_memory_of_igniters_models_has_the_printed_parameters() -> None:
    (parameters,) = (claim for claim in igniter_setup.SETUP if "parameters of AlexNet" in claim.what)
    assert parameters.ours(None) == pytest.approx(parameters.paper, abs=0.03)


def test_w9_has_the_rate_of_the_readme() -> None:
    (rate,) = (claim for claim in igniter_setup.SETUP if "W9, App3" in claim.what)
    assert (rate.paper, rate.ours(None)) == ((300.0,), (200.0,))


def test_berts_input_alone_differs_from_the_table() -> None:
    (inputs,) = (claim for claim in gpulet_setup.SETUP if "values of an input" in claim.what)
    assert inputs.ours(None)[:3] == inputs.paper[:3]
    assert inputs.ours(None)[3] > inputs.paper[3]
