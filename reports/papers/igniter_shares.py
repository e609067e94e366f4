"""iGniter, Fig. 18: shares of its twelve workloads by scheduler, and their cost."""

from collections.abc import Mapping
from dataclasses import replace

from instances.gslice import CutRule
from reports.charts.plan_bars import draw_shares, shares_pct
from reports.claim import NOTHING_PUBLISHED, TAKEN_FROM_PAPER, Claim, Values, query
from reports.figure import Figure
from reports.need import Need
from reports.papers.igniter_plans import README_RATE, TWELVE, need_on_twelve
from reports.placement import pieces
from reports.runs import Runs, the_instance


def _shares_on_twelve(runs: Runs, scheduler: str) -> Mapping[str, float]:
    """Return the share of each of the twelve workloads in percent; parts of a workload are summed."""
    return shares_pct(pieces(runs.row(need_on_twelve(scheduler)), the_instance("igniter-12")))


@query
def _share_and_batch(runs: Runs, scheduler: str, workload: str, value_count: int = 2) -> Values:
    """Return the share of a workload in percent and its batch, or only the first ``value_count`` of both."""
    for piece in pieces(runs.row(need_on_twelve(scheduler)), the_instance("igniter-12")):
        if piece.workload == workload:
            return (piece.share_pct, piece.batch)[:value_count]
    return (None,)


@query
def _with_other_share(runs: Runs, scheduler: str, sign: int) -> Values:
    """Return the workloads with a larger (1) or a smaller (-1) share than by iGniter."""
    shares, shares_by_igniter = _shares_on_twelve(runs, scheduler), _shares_on_twelve(runs, "igniter")
    return (_differing(shares, shares_by_igniter, sign),)


@query
def _with_other_share_by_cut(runs: Runs, cut: CutRule) -> Values:
    """Return the workloads with a smaller and with a larger share than by iGniter if gslice+ cuts by another rule."""
    row = runs.row(replace(need_on_twelve("gslice+"), parameters=(f"gslice+.cut={cut}",)))
    shares = shares_pct(pieces(row, the_instance("igniter-12")))
    shares_by_igniter = _shares_on_twelve(runs, "igniter")
    return _differing(shares, shares_by_igniter, -1), _differing(shares, shares_by_igniter, 1)


def _differing(shares: Mapping[str, float], others: Mapping[str, float], sign: int) -> str:
    """Return the workloads with a larger (1) or a smaller (-1) share than among ``others``, by their numbers."""
    names = [name for name in shares if sign * (shares[name] - others[name]) > 1e-9]
    return ", ".join(sorted(names, key=lambda name: int(name[1:]))) or "none"


def _share_of_last_gpu(runs: Runs) -> Values:
    placed = pieces(runs.row(need_on_twelve("igniter")), the_instance("igniter-12"))
    last_gpu = max(piece.gpu for piece in placed)
    return (sum(piece.share_pct for piece in placed if piece.gpu == last_gpu),)


@query
def _most_on_a_gpu(runs: Runs, scheduler: str) -> Values:
    """Return the largest number of workloads on one GPU."""
    plan = runs.row(need_on_twelve(scheduler)).plan
    return (None if plan is None else max(len(gpu.gpulets) for gpu in plan.gpus),)


def _shares_given(runs: Runs) -> Values:
    """Return the shares of gpu-lets+'s gpulets in percent, ascending."""
    placed = pieces(runs.row(need_on_twelve("gpu-lets+")), the_instance("igniter-12"))
    return (", ".join(f"{share_pct:g}" for share_pct in sorted({piece.share_pct for piece in placed})) or None,)


def _saving_pct(runs: Runs) -> Values:
    ours, other = (runs.row(need_on_twelve(scheduler)).cost_per_hour for scheduler in ("igniter", "gpu-lets+"))
    return (None if ours is None or other is None else 100.0 * (1.0 - ours / other),)


def _residents(runs: Runs) -> Values:
    placed = pieces(runs.row(need_on_twelve("igniter")), the_instance("igniter-12"))
    gpu_of = {piece.workload: piece.gpu for piece in placed}
    texts = []
    for gpu in (gpu_of["W10"], gpu_of["W1"]):
        residents = (name for name in gpu_of if gpu_of[name] == gpu)
        texts.append(f"GPU{gpu + 1}: " + ", ".join(sorted(residents, key=lambda name: int(name[1:]))))
    return tuple(texts)


_WITHOUT_INPUT = "the share is an input from the paper, but the knee gives the same"
"""Words of the notes on shares of gpu-lets+ that do not depend on the printed shares."""

FIG18 = Figure(
    name="igniter-fig18",
    title="Shares of iGniter's twelve workloads",
    paper="iGniter, Fig. 18",
    shows="FFD+ gives every workload at most what iGniter gives it; gpu-lets+ gives at least as much, and so "
    "does GSLICE+ except to W12.",
    look_for="FFD+ is at or below iGniter everywhere, and most of its bars are violations: the difference is "
    "iGniter's allowance for interference. gpu-lets+ is above iGniter everywhere. GSLICE+ ends below iGniter for three "
    "workloads, W12 among them, because its loop keeps moving: after one more adjustment there are two.",
    cost="the 4 runs of igniter-fig14, and 2 more",
    # Bars are drawn in the order of the needs, so that neighbouring bars differ in a grey print.
    needs=(Need("igniter-12", ("gslice+",)), TWELVE, Need("igniter-12", ("gpu-lets+",))),
    draws=draw_shares,
    claims=(
        *(
            Claim(
                what=f"Fig. 18: share and batch of {workload} by {scheduler}",
                paper=paper,
                ours=_share_and_batch(scheduler, workload),
                form="{:g} %, batch {}",
                note=note,
            )
            for workload, scheduler, paper, note in (
                ("W4", "gpu-lets+", (60.0, 2), _WITHOUT_INPUT),
                ("W4", "igniter", (32.5, 4), ""),
            )
        ),
        *(
            Claim(
                what=f"Fig. 18: share of W9 by {scheduler}",
                paper=(share_pct,),
                ours=_share_and_batch(scheduler, "W9", 1),
                form="{:g} %",
                note=note,
            )
            for scheduler, share_pct, note in (
                ("gpu-lets+", 40.0, f"{README_RATE}; {_WITHOUT_INPUT}"),
                ("igniter", 37.5, README_RATE),
            )
        ),
        Claim(
            what="Fig. 18: workloads with a smaller share by gpu-lets+ than by iGniter",
            paper=("none",),
            ours=_with_other_share("gpu-lets+", -1),
        ),
        Claim(
            what="Fig. 18: workloads with a larger share by ffd+ than by iGniter",
            paper=("none",),
            ours=_with_other_share("ffd+", 1),
        ),
        Claim(
            what="Fig. 18: workloads with a smaller share by gslice+ than by iGniter",
            paper=("W12",),
            ours=_with_other_share("gslice+", -1),
            reason="in the authors' code a share falls once latency or throughput exceeds the threshold, and the loop "
            "never settles, so its start decides, too; if both have to, W12 alone is below (a line below)",
        ),
        Claim(
            what="– with a larger share by gslice+",
            paper=NOTHING_PUBLISHED,
            ours=_with_other_share("gslice+", 1),
        ),
        *(
            Claim(
                what=f"– smaller, and larger, if a share falls once {surplus} the threshold",
                paper=NOTHING_PUBLISHED,
                ours=_with_other_share_by_cut(cut),
                form="{}; {}",
                note=note,
            )
            for cut, surplus, note in (
                (CutRule.LATENCY, "the latency exceeds", "Sec. 5.3 tells W10's cut so"),
                (
                    CutRule.BOTH,
                    "latency and throughput exceed",
                    "a reading of Sec. 5.3: no cut as long as a workload meets SLOs and threshold",
                ),
            )
        ),
        Claim(
            what="Sec. 5.3: share that iGniter provisions on the GPU that ffd+ does not need (GPU6)",
            paper=(25.0,),
            ours=_share_of_last_gpu,
            form="{:g} %",
            reason="the published plan, which ours equals share for share, has our number there",
        ),
        Claim(
            what="Sec. 5.3: most workloads on one GPU by gpu-lets+",
            paper=(2,),
            ours=_most_on_a_gpu("gpu-lets+"),
            not_comparable=TAKEN_FROM_PAPER,
        ),
        Claim(
            what="Sec. 5.3: most workloads on one GPU by iGniter",
            paper="more than 2",
            ours=_most_on_a_gpu("igniter"),
            supports=lambda most: most > 2,
            criterion="more than two",
        ),
        Claim(
            what="Sec. 5.3: shares that gpu-lets+ gives",
            paper="five choices: 20, 40, 50, 60, 80 %",
            ours=_shares_given,
            form="{} %",
            not_comparable=TAKEN_FROM_PAPER,
        ),
        Claim(
            what="Sec. 5.3: cost saved by iGniter over gpu-lets+",
            paper=(25.0,),
            ours=_saving_pct,
            form="{:.3g} %",
            within=1e-3,
        ),
        Claim(
            what="Sec. 5.3: GPU of W10 and of W1 by iGniter, and its residents",
            paper=("GPU4: W9, W10", "GPU5: W1, W5, W11"),
            ours=_residents,
            form="{}; {}",
        ),
    ),
)

FIGURES = (FIG18,)
