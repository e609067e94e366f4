"""Schedulers and instances in the figures of gpulet's two papers."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from reports.claim import NOTHING_PUBLISHED, Claim, Values
from reports.need import Need
from reports.runs import Runs

NAMES = {"gpulet-game": "game", "gpulet-traffic": "traffic"} | {f"gpulet-scen{n}": f"scen{n}" for n in range(1, 6)}
"""Instances in the ATC'22 paper's figures of rates, with their labels."""

ARXIV_NAMES = {"gpulet-arxiv-game": "game", "gpulet-arxiv-traffic": "traffic"} | {
    f"gpulet-{name}": name for name in ("equal", "long-only", "short-skew")
}
"""Instances in the arXiv'21 version's figures of rates, with their labels."""

ELASTIC = "elastic-partitioning"
_LONG_LIMIT_S = 300.0
Variant = Literal["arxiv", "atc22"]


def elastic_need(
    instances: str, variant: Variant, *, interference: bool, second_pass: bool = False, quick: str | None = None
) -> Need:
    """Return the need for elastic partitioning as printed in one of the papers, with or without interference.

    A ``second_pass`` is this bench's addition.
    """
    parameters = (
        f"{ELASTIC}.variant={variant}",
        f"{ELASTIC}.interference={'true' if interference else 'false'}",
        f"{ELASTIC}.second_pass={'true' if second_pass else 'false'}",
        f"{ELASTIC}.margins=printed",
    )
    return Need(instances, (ELASTIC,), quick=quick, parameters=parameters)


def ideal_need(instances: str, *, quick: str | None = None) -> Need:
    """Return the need for the ideal scheduler, which enumerates all partitions and takes interference into account.

    The scheduler's limit on tried gpulets ends the run before the time limit.
    """
    parameters = ("ideal.interference=true", "ideal.margins=printed")
    return Need(instances, ("ideal",), quick=quick, parameters=parameters, time_limit_s=_LONG_LIMIT_S)


def gpulet_and_ideal(needs: Mapping[str, Need], second_pass: bool) -> tuple[Need, Need]:
    """Return the needs for gpulet+int and for the ideal scheduler; ``second_pass`` is a parameter of the former."""
    printed = needs["gpulet+int"]
    with_second_pass = tuple(text.replace(".second_pass=false", ".second_pass=true") for text in printed.parameters)
    return replace(printed, parameters=with_second_pass) if second_pass else printed, needs["ideal"]


def with_margins(need: Need) -> Need:
    """Return the need for the same scheduler with the margins of the published code, which no paper prints."""
    parameters = (text.replace(".margins=printed", ".margins=glet-code") for text in need.parameters)
    return replace(need, parameters=tuple(parameters))


ALL_RESERVES = "with the reserves of the published code in all plans"
"""Words of the claims on plans by the needs of ``with_margins``."""

ANOTHER_NUMBER = (
    "the reading of `p_eff` decides the number (docs/deviations.md); a second pass (next line) leads further away"
)


def two_passes(
    what: tuple[str, str],
    ours: Callable[[bool], Callable[[Runs], Values]],
    reason: str = ANOTHER_NUMBER,
    **about: Any,
) -> tuple[Claim, Claim]:
    """Return the claim on elastic partitioning as printed, and the line of our second pass, which has no verdict.

    Parameters
    ----------
    what
        The figure, and the compared quantity.
    ours
        Function that returns the query; its argument tells whether there is a second pass.
    reason, about
        Reason of a difference, and further attributes of the claim.
    """
    figure, quantity = what
    printed = Claim(what=f"{figure}: {quantity}", ours=ours(False), reason=reason, **about)
    with_second_pass = replace(
        printed,
        what=f"– {figure} with a second pass",
        ours=ours(True),
        paper=NOTHING_PUBLISHED,
        within=0.0,
        supports=None,
        criterion="",
        reason="",
        note="`second_pass=yes` is an addition of this bench, so it has no verdict",
    )
    return printed, with_second_pass
