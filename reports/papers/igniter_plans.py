"""iGniter, Table 1, Fig. 14 and 20: plans for its workloads."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bench.api import Run
from bench.ledger.row import Row
from bench.plan_simulation import Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from heuristics.igniter.igniter import IGniter
from instances import GpuPool
from instances.catalogue import gpu_type
from instances.measurements import Configuration
from instances.performance.validation import latencies_ms
from instances.view import View
from reports.charts.plan_bars import draw_plans
from reports.claim import NOTHING_PUBLISHED, TAKEN_FROM_PAPER, Claim, Values, query
from reports.figure import Figure
from reports.need import Need
from reports.placement import pieces
from reports.runs import Runs, the_instance

SCHEDULERS = ("igniter", "gpu-lets+", "ffd+", "gslice+")

TABLE1_IN_PAPER = {"gslice+": (1, 2), "gpu-lets+": (2, 2), "igniter": (1, 0)}
"""Number of GPUs, and of models whose measured P99 latency exceeds the SLO; GSLICE and gpu-lets are the originals."""

TABLE1_PLANS_IN_PAPER = {
    "gslice+": "A(37.5 %, 18) R(30 %, 8) V(40 %, 6)",
    "gpu-lets+": "A(40 %, 23); R(60 %, 18) V(40 %, 6)",
    "igniter": "A(10 %, 4) R(30 %, 8) V(37.5 %, 6)",
}
"""Share and batch of AlexNet, ResNet-50 and VGG-19 in the paper; a semicolon separates GPUs."""

CLUSTERS = {"v100": 10, "t4": 20}
"""GPUs of the paper's clusters, by type (Sec. 5.1 and 5.3)."""

AS_MEASURED = Settings(Arrivals(Process.CONSTANT), dropping=False)
"""Settings of a simulation like the paper's measurements: constant arrivals, and no request is dropped."""

_TABLE1_RUNS = Need("igniter-3", ("gslice+", "gpu-lets+", "igniter"))
TWELVE = Need("igniter-12", ("igniter", "ffd+", "ffd++", "cpsat"))
_ORIGINALS = (
    "The paper's GSLICE and gpu-lets are the original ones; here both have the patches of iGniter's evaluation.",
)


IGNITER_PARAMETERS = ("igniter.spend_spare=true",)
THREE = Need("igniter-3", ("igniter",), parameters=IGNITER_PARAMETERS)
T4 = Need("igniter-12-t4", ("igniter",), parameters=IGNITER_PARAMETERS)
BASELINES = ("gpu-lets+", "ffd+", "gslice+")

README_RATE = "with the rate of W9 in the README (line on Table 3)"
"""Words of the notes on shares that the printed rate of W9 would not give."""

_CHOSEN_INPUTS = "SLO and rate of W12 were chosen so that igniter has the published plan, see docs/deviations.md"
"""Words of the note on the plan that other inputs of W12 would not give."""


def need_on_twelve(scheduler: str) -> Need:
    """Return the need for a scheduler's run on the twelve workloads."""
    return Need("igniter-12", (scheduler,), parameters=IGNITER_PARAMETERS if scheduler == "igniter" else ())


@query
def _plan_of_three(runs: Runs, scheduler: str) -> Values:
    """Return the plan for the three workloads in the notation of Table 1."""
    row = next(row for row in runs.rows(TABLE1.needs[0]) if row.scheduler == scheduler)
    models_of: dict[int, list[str]] = {}
    for piece in sorted(pieces(row, the_instance(row.instance)), key=lambda piece: piece.model):
        models_of.setdefault(piece.gpu, []).append(f"{piece.model[0].upper()}({piece.share_pct:g} %, {piece.batch})")
    return ("; ".join(" ".join(models) for models in sorted(models_of.values())),)


def _sum_of_shares(runs: Runs) -> Values:
    """Return the largest sum of shares on a GPU of gslice+'s plan for the three workloads, in percent."""
    row = next(row for row in runs.rows(TABLE1.needs[0]) if row.scheduler == "gslice+")
    sums: dict[int, float] = {}
    for piece in pieces(row, the_instance(row.instance)):
        sums[piece.gpu] = sums.get(piece.gpu, 0.0) + piece.share_pct
    return (max(sums.values(), default=None),)


PRINTED_SHARES_PCT = {"alexnet": 40, "resnet50": 60, "vgg19": 40}
"""Shares of gpu-lets in Table 1."""


_PRINTED_PLANS = {
    "GSLICE": ((("alexnet", 18, 37.5), ("resnet50", 8, 30.0), ("vgg19", 6, 40.0)),),
    "gpu-lets": ((("alexnet", 23, 40.0),), (("resnet50", 18, 60.0), ("vgg19", 6, 40.0))),
    "iGniter": ((("alexnet", 4, 10.0), ("resnet50", 8, 30.0), ("vgg19", 6, 37.5)),),
}
"""Plans of Table 1 by scheduler: for each GPU the model, batch and share in percent of its residents."""


def printed_plans_if_full(_: Runs) -> Values:
    """Return the models that are late under each printed plan if a batch starts only when it is full.

    The first request waits for the last one of its batch, and then for the inference beside the other residents, which
    takes as long as iGniter's model predicts.
    """
    instance, late_by_plan = the_instance("igniter-3"), []
    workload_of = {workload.model: workload for workload in instance.workloads}
    for gpus in _PRINTED_PLANS.values():
        late = []
        for residents in gpus:
            group = [Configuration(*resident) for resident in residents]
            (inferences_ms,) = latencies_ms(instance.gpus[0].type, "igniter", [group])
            for resident, inference_ms in zip(group, inferences_ms, strict=True):
                workload = workload_of[resident.model]
                waiting_ms = 1000.0 * (resident.batch - 1) / workload.rate_rps
                if waiting_ms + float(inference_ms) > workload.slo_ms:
                    late.append(resident.model[0].upper())
        late_by_plan.append(", ".join(late) or "none")
    return tuple(late_by_plan)


@query
def _late_under_constant_arrivals(runs: Runs, need: Need) -> Values:
    """Return the number of workloads in violation by row of ``need``, as the paper measures it."""
    return tuple(
        None if row.plan is None else simulate(row.plan, the_instance(row.instance), AS_MEASURED).violating
        for row in runs.rows(need)
    )


def _largest_batches(_: Runs) -> Values:
    """Return the largest batch within half the SLO alone at the printed shares: AlexNet, ResNet-50, VGG-19."""
    instance = the_instance("igniter-3")
    view = View.of(instance, instance.gpus[0].type)
    tables, batches = view.tables, []
    for model, row, slo_ms in sorted(
        zip((workload.model for workload in instance.workloads), view.model, view.slo_ms, strict=True)
    ):
        batch = np.arange(1, int(tables.max_batch[row]) + 1)
        units = round(PRINTED_SHARES_PCT[model] * tables.share_units / 100)
        latency_ms = tables.scheduling_ms[row] + tables.active_ms[row, batch, units] + tables.transfer_ms[row, batch]
        batches.append(int(batch[latency_ms <= slo_ms / 2.0].max()))
    return tuple(batches)


@query
def _gpus_and_cost(runs: Runs, need: Need) -> Values:
    row = runs.row(need)
    return row.gpus_used, row.cost_per_hour


def _coefficients(_: Runs) -> Values:
    hardware = gpu_type("v100").hardware
    return hardware.alpha_f, hardware.alpha_sch, hardware.beta_sch


def _workloads_on_several_gpus(row: Row) -> str:
    """Return the names of the workloads that a run's plan splits over several GPUs, in order."""
    gpus_of: dict[str, set[int]] = {}
    for piece in pieces(row, the_instance(row.instance)):
        gpus_of.setdefault(piece.workload, set()).add(piece.gpu)
    return ", ".join(
        sorted((name for name, gpu_numbers in gpus_of.items() if len(gpu_numbers) > 1), key=lambda name: int(name[1:]))
    )


_TABLE1_SCHEDULERS = tuple(TABLE1_IN_PAPER)


@query
def _for_table1(runs: Runs, quantity: Callable[[Row], int | None]) -> Values:
    row_of = {row.scheduler: row for row in runs.rows(TABLE1.needs[0])}
    return tuple(quantity(row_of[scheduler]) for scheduler in _TABLE1_SCHEDULERS)


TABLE1 = Figure(
    name="igniter-table1",
    title="Plans for iGniter's three motivating workloads",
    paper="iGniter, Table 1",
    shows="GSLICE takes one V100, A(37.5 %, 18) R(30 %, 8) V(40 %, 6); gpu-lets takes two, A(40 %, 23) and R(60 %, 18) "
    "V(40 %, 6); two models violate their SLOs under either. iGniter takes one, A(10 %, 4) R(30 %, 8) V(37.5 %, 6), "
    "without a violation.",
    look_for="iGniter's plan is the published one, share for share, and the others take the published numbers of "
    "GPUs. They have fewer violations: with the batches of iGniter's patches gpu-lets+ has none. gslice+ has one, of "
    "VGG-19, whose share it reduces.",
    cost="3 runs, a second",
    needs=(_TABLE1_RUNS,),
    draws=partial(draw_plans, notes=_ORIGINALS, others=False),
    claims=(
        Claim(
            what=f"Table 1: GPUs for three workloads by {', '.join(_TABLE1_SCHEDULERS)}",
            paper=tuple(gpus for gpus, _ in TABLE1_IN_PAPER.values()),
            ours=_for_table1(lambda row: row.gpus_used),
            form="{}, {}, {}",
        ),
        *(
            Claim(
                what=f"– plan of {scheduler}",
                paper=(paper,),
                ours=_plan_of_three(scheduler),
                reason=reason,
            )
            for (scheduler, paper), reason in zip(
                TABLE1_PLANS_IN_PAPER.items(),
                (
                    "the paper's is the original GSLICE, whose batch of AlexNet is the largest within half the SLO",
                    "the paper's is the original gpu-lets, with the largest batch within half the SLO (next line)",
                    "",
                ),
                strict=True,
            )
        ),
        Claim(
            what="– sum of the shares on the GPU of gslice+",
            paper="can exceed 100 %; 107.5 % by the printed plan",
            ours=_sum_of_shares,
            form="{:g} %",
            supports=lambda sum_pct: sum_pct > 100.0,
            criterion="above 100 %",
            reason="here the batch just meets the rate, so AlexNet needs less of the GPU (line on its plan)",
        ),
        Claim(
            what="– largest batch within half the SLO at gpu-lets' shares, AlexNet, ResNet-50, VGG-19",
            paper=(23, 18, 6),
            ours=_largest_batches,
            form="{}, {}, {}",
            reason="by our times ResNet-50's next larger batch takes longer than half the SLO",
        ),
        Claim(
            what="– number of models in violation",
            paper=tuple(violating for _, violating in TABLE1_IN_PAPER.values()),
            ours=_late_under_constant_arrivals(_TABLE1_RUNS),
            form="{}, {}, {}",
            reason="the paper measures the original GSLICE and gpu-lets, whose larger batches are late if they wait "
            "until they are full (next line)",
            note="simulated as Fig. 14",
        ),
        Claim(
            what="– models in violation under the printed plans of GSLICE, gpu-lets, iGniter, if each batch is full",
            paper=("A, R", "A, R", "none"),
            ours=printed_plans_if_full,
            form="{}; {}; {}",
            reason="the shares of GSLICE's plan exceed the GPU; the paper explains long latencies by this, and "
            "iGniter's model does not count it",
        ),
        Claim(
            what="– latency budgets that the plans break, by the judge",
            paper=NOTHING_PUBLISHED,
            ours=_for_table1(lambda row: row.violations),
            form="{}, {}, {}",
        ),
    ),
)

FIG14 = Figure(
    name="igniter-fig14",
    title="Plans for iGniter's twelve workloads",
    paper="iGniter, Fig. 14",
    shows="iGniter serves the twelve workloads on 6 V100s ($18.36/h) without an SLO violation. FFD+ takes 5 "
    "GPUs and violates 10 SLOs, gpu-lets+ takes 8 and violates 3, GSLICE+ takes 6 and violates 3.",
    look_for="iGniter's plan is the published one: 6 GPUs, the same shares and batches. FFD+ saves a GPU at the price "
    "of 9 violations; the paper measured 10, while the judge counts the model's predictions. FFD++ needs 6 GPUs as "
    "well, and so does the exact cpsat.",
    cost="4 runs: a few seconds, and at most the time limit for cpsat",
    needs=(TWELVE,),
    draws=draw_plans,
    claims=tuple(
        Claim(
            what=f"Twelve workloads: GPUs of {scheduler}",
            paper=paper,
            ours=_gpus_and_cost(need_on_twelve(scheduler)),
            form="{} (${:.2f}/h)",
            within=1e-3,
            note=note,
        )
        for scheduler, paper, note in (
            (
                "igniter",
                (6, 18.36),
                f"every share is that of the published plan, {README_RATE}; {_CHOSEN_INPUTS}; a test compares them",
            ),
            ("ffd+", (5, 15.30), ""),
            ("gpu-lets+", (8, 24.48), "planned with gpulet's pair model"),
            ("gslice+", (6, 18.36), ""),
        )
    ),
)


def _chosen_type(_: Runs) -> Values:
    """Return the type of the GPUs that igniter rents for the twelve workloads from both clusters, and their price."""
    pools = tuple(GpuPool(gpu_type(name), count) for name, count in CLUSTERS.items())
    both = replace(the_instance("igniter-12"), gpus=pools)
    plan = IGniter().schedule(both, Run()).plan
    if plan is None:
        return (None,)
    return " and ".join(sorted({gpu.type.upper() for gpu in plan.gpus})), both.cost_per_hour(plan.gpus)


def _v100_over_t4(_: Runs) -> Values:
    """Return the factors of the T4's active times and of its growths by L2 over the V100's, by the catalogue."""
    v100, t4 = (gpu_type(name).model("vgg19") for name in ("v100", "t4"))
    return t4.k[0] / v100.k[0], t4.alpha_cache / v100.alpha_cache


FIG20 = Figure(
    name="igniter-fig20",
    title="iGniter's plan for its twelve workloads on T4s",
    paper="iGniter, Fig. 20",
    shows="15 T4s ($7.89/h) serve the workloads of 6 V100s ($18.36/h); W7, W8, W10 and W12 take two or more GPUs each.",
    look_for="The same number of T4s at the same price: W7, W8 and W10 on two GPUs each and W12 on three. W5 takes "
    "two as well. The T4's coefficients are calibrated to this number, so it does not validate them.",
    cost="1 run, a second",
    needs=(Need("igniter-12-t4", ("igniter",)),),
    draws=partial(draw_plans, plans_per_row=1, others=False),
    claims=(
        Claim(
            what="Fig. 20: GPUs for the twelve workloads on T4s",
            paper=(15, 7.89),
            ours=_gpus_and_cost(T4),
            form="{} (${:.2f}/h)",
            not_comparable="the times of the T4 are calibrated to this number",
            note="Sec. 5.3",
        ),
        Claim(
            what="– GPU type that igniter chooses from 10 V100s and 20 T4s",
            paper="g4dn.xlarge (T4), $7.89/h",
            ours=_chosen_type,
            form="{}, ${:.2f}/h",
            not_comparable="the times of the T4 are calibrated to the number of T4s, and the prices are published",
            note="the end of Sec. 5.3 says that the plan of Fig. 14, on V100s, is adopted",
        ),
        Claim(
            what="– workloads that are split over several T4s",
            paper=("W7, W8, W10, W12",),
            ours=lambda runs: (_workloads_on_several_gpus(runs.row(T4)),),
            reason="whatever the factor on the V100's times, W5 is split where iGniter needs the printed number of "
            "T4s; with shorter times it splits the printed four alone, but needs fewer T4s",
        ),
        Claim(
            what="– workloads in violation",
            paper=(0,),
            ours=_late_under_constant_arrivals(T4),
            not_comparable="the times of the T4 are calibrated",
            note="simulated as Fig. 14",
        ),
        Claim(
            what="Sec. 5.3: computing resources and memory bandwidth of a V100 over those of a T4",
            paper=(2.0, 3.0),
            ours=_v100_over_t4,
            form="{:.3g}×, {:.3g}×",
            not_comparable="the times of the T4 are calibrated to the number of GPUs; its growths have the printed "
            "factor",
        ),
    ),
)


def _hardware(_: Runs) -> Values:
    hardware = gpu_type("v100").hardware
    gb_per_s = hardware.pcie_bytes_per_ms / 1e6
    return hardware.max_power_w, hardware.max_frequency_mhz, hardware.idle_power_w, gb_per_s


HARDWARE = Claim(
    what="Power cap, frequency, idle power and PCIe bandwidth of the V100",
    paper=(300, 1530, 53.5, 10),
    ours=_hardware,
    form="{:g} W, {:g} MHz, {:g} W, {:g} GB/s",
    not_comparable=TAKEN_FROM_PAPER,
)

COEFFICIENTS = Claim(
    what="Coefficients α_f, α_sch, β_sch of the V100",
    paper=(-1.025, 0.00475, -0.00902),
    ours=_coefficients,
    form="{:.5g}, {:.5g}, {:.5g}",
    within=1e-3,
)

FIGURES = (TABLE1, FIG14, FIG20)
