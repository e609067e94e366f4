"""iGniter, Fig. 19: placement of one of its twelve workloads, by strategy."""

from functools import partial

import numpy as np

from heuristics.packing import appropriate_configurations
from instances.least_shares import raise_to_feasible
from instances.view import View
from reports.charts.plan_bars import draw_gpu_of
from reports.claim import NOTHING_PUBLISHED, TAKEN_FROM_PAPER, Claim, Values, query
from reports.figure import Figure
from reports.need import Need
from reports.papers.igniter_plans import need_on_twelve
from reports.placement import pieces
from reports.runs import Runs, the_instance

PLACES_IN_PAPER = {"ffd+": "GPU1", "gpu-lets+": "GPU2, 40 %", "ffd++": "GPU5, 15 %", "igniter": "GPU6, 7.5 %"}
"""Placement of the second workload in the paper, by scheduler (Sec. 5.3)."""

SECOND = "W2"
"""The second workload: App2 of AlexNet."""


@query
def _gpu_and_share(runs: Runs, scheduler: str) -> Values:
    """Return the GPU and the share of the second workload in words; ``None`` without a placement."""
    all_pieces = pieces(runs.row(need_on_twelve(scheduler)), the_instance("igniter-12"))
    pieces_of_workload = [piece for piece in all_pieces if piece.workload == SECOND]
    return (
        f"GPU{pieces_of_workload[0].gpu + 1}, {pieces_of_workload[0].share_pct:g} %" if pieces_of_workload else None,
    )


def _free_shares(runs: Runs) -> Values:
    """Return the shares in percent that ffd++ leaves free on GPU1 to GPU5, before it places the last workload, W2."""
    placed = list(pieces(runs.row(need_on_twelve("ffd++")), the_instance("igniter-12")))
    return tuple(100.0 - sum(piece.share_pct for piece in placed if piece.gpu == gpu) for gpu in range(5))


def _first_with_room(runs: Runs) -> Values:
    """Return the first GPU on which Algorithm 2 finds shares for W2 beside igniter's placement of the other workloads.

    The values are the GPU's number, the share of W2, and the growth of all shares of the GPU, in percent.
    """
    row, instance = runs.row(need_on_twelve("igniter")), the_instance("igniter-12")
    if row.plan is None:
        return (None,)
    view = View.of(instance, instance.gpus[0].type)
    configurations, unit_pct = appropriate_configurations(view), view.gpu.share_pct(1)
    second = instance.workload_index[SECOND]
    for number, gpu in enumerate(row.plan.gpus, start=1):
        units_of = {instance.workload_index[gpulet.slots[0].workload]: gpulet.share_units for gpulet in gpu.gpulets}
        units_of.pop(second, None)
        residents = [*units_of, second]
        units = np.array([*units_of.values(), configurations.units[second]], dtype=np.int64)
        model, batch = configurations.model[residents], configurations.batch[residents]
        if raise_to_feasible(view.tables, model, batch, configurations.budget_ms[residents], units, len(residents)):
            growth_units = int(units.sum()) - sum(units_of.values())
            return number, unit_pct * int(units[-1]), unit_pct * growth_units
    return (None,)


FIG19 = Figure(
    name="igniter-fig19",
    title="GPU of the second workload, App2 of AlexNet, by strategy",
    paper="iGniter, Fig. 19",
    shows="FFD+ puts it on GPU1 at its least share alone, which violates SLOs; gpu-lets+ on GPU2 with 40 %; FFD++ on "
    "GPU5, the first with room, with 15 %; iGniter on GPU6, where it costs least: 7.5 %.",
    look_for="FFD+, gpu-lets+ and iGniter act as in the paper. FFD++ finds room on GPU6 only, so W2 is alone there "
    "and needs half the share.",
    cost="4 runs, a second",
    needs=(Need("igniter-12", tuple(PLACES_IN_PAPER)),),
    draws=partial(draw_gpu_of, workload=SECOND, paper=PLACES_IN_PAPER),
    claims=(
        *(
            Claim(
                what=f"Fig. 19: GPU and share of W2 by {scheduler}",
                paper=paper,
                ours=_gpu_and_share(scheduler),
                supports=lambda ours, paper=paper: str(ours).startswith(paper),
                criterion="the GPU, and the share if the paper states it",
                not_comparable=TAKEN_FROM_PAPER if scheduler == "gpu-lets+" else "",
                reason=reason,
                note=note,
            )
            for (scheduler, paper), reason, note in zip(
                PLACES_IN_PAPER.items(),
                (
                    "",
                    "",
                    "no earlier GPU has as much free when W2, the last workload, is placed (next line); beside "
                    "igniter's placement of the other eleven, the printed GPU is the first with room (the line after)",
                    "",
                ),
                (
                    "",
                    "the most efficient share of AlexNet is an input; by the knee, W2 has another share and another "
                    "GPU, see docs/deviations.md",
                    "",
                    "",
                ),
                strict=True,
            )
        ),
        Claim(
            what="– shares that ffd++ leaves free on GPU1 to GPU5",
            paper=NOTHING_PUBLISHED,
            ours=_free_shares,
            form="{:g}, {:g}, {:g}, {:g}, {:g} %",
        ),
        Claim(
            what="– beside igniter's other eleven: first GPU with room for W2, its share, growth of all shares",
            paper=NOTHING_PUBLISHED,
            ours=_first_with_room,
            form="GPU{}, {:g} %, {:g} %",
        ),
    ),
)

FIGURES = (FIG19,)
