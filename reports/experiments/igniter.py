"""iGniter (Xu et al., TPDS 2022): plans, decision times, and runs over time."""

from collections.abc import Callable, Mapping
from functools import cache

from bench.ledger.row import Row
from instances.catalogue import gpu_type
from reports.experiments.claim import NOTHING_PUBLISHED, Claim, Values, below
from reports.experiments.runs import NotAtHandError, Runs, the_instance
from reports.figure import Need
from reports.figures import (
    igniter_fig14_violations,
    igniter_fig15,
    igniter_fig16,
    igniter_fig17,
    igniter_fig19,
    igniter_fig21,
    igniter_motivation,
    igniter_profile,
    igniter_table1,
)
from reports.placement import pieces
from reports.tuned_and_planned import courses

IGNITER = ("igniter.spend_spare=true",)
THREE = Need("igniter-3", ("igniter",), parameters=IGNITER)
T4 = Need("igniter-12-t4", ("igniter",), parameters=IGNITER)
THOUSAND = Need("igniter-mix-1000-s0", ("igniter",), parameters=IGNITER)
BASELINES = ("gpu-lets+", "ffd+", "gslice+")


def twelve(scheduler: str) -> Need:
    """Return the need for the run of a scheduler on the twelve workloads."""
    return Need("igniter-12", (scheduler,), parameters=IGNITER if scheduler == "igniter" else ())


def _first_plan(runs: Runs) -> Values:
    found = sorted(pieces(runs.row(THREE), the_instance(THREE.instances)), key=lambda piece: piece.model)
    return (" ".join(f"{piece.model[0].upper()}({piece.share_pct:g} %, {piece.batch})" for piece in found),)


def _gpus(need: Need) -> Callable[[Runs], Values]:
    def query(runs: Runs) -> Values:
        row = runs.row(need)
        return row.gpus_used, row.cost_per_hour

    return query


def _judged_late(runs: Runs) -> Values:
    return tuple(row.violations for (row,) in runs.each(map(twelve, ("igniter", *BASELINES))))


def _simulated_late(runs: Runs) -> Values:
    """Return the number of workloads in violation under constant arrivals, by scheduler."""
    constant, _poisson = igniter_fig14_violations.NEEDS
    late = {row.scheduler: row.sim_violating for row in runs.rows(constant)}
    return tuple(late[scheduler] for scheduler in ("igniter", *BASELINES))


def _coefficients(_: Runs) -> Values:
    hardware = gpu_type("v100").hardware
    return hardware.alpha_f, hardware.alpha_sch, hardware.beta_sch


def _decision_ms(need: Need) -> Callable[[Runs], Values]:
    def query(runs: Runs) -> Values:
        taken_s = runs.row(need).decision_s
        return (None if taken_s is None else 1000.0 * taken_s,)

    return query


def _place(scheduler: str) -> Callable[[Runs], Values]:
    """Query the GPU and the share of the second workload."""

    def query(runs: Runs) -> Values:
        found = pieces(runs.row(twelve(scheduler)), the_instance("igniter-12"))
        own = [piece for piece in found if piece.workload == igniter_fig19.WORKLOAD]
        return (f"GPU{own[0].gpu + 1}, {own[0].share_pct:g} %" if own else None,)

    return query


def _on_several(row: Row) -> str:
    gpus: dict[str, set[int]] = {}
    for piece in pieces(row, the_instance(row.instance)):
        gpus.setdefault(piece.workload, set()).add(piece.gpu)
    return ", ".join(sorted((name for name, on in gpus.items() if len(on) > 1), key=lambda name: int(name[1:])))


def _throughput(_: Runs) -> Values:
    """Return the throughput of W10 in the last period, tuned and planned."""
    return tuple(igniter_fig15.series(course)[1][-1] for course in courses().values())


def _share_and_batch(_: Runs) -> Values:
    """Return share and batch of W10 at the start and at the end, tuned and planned."""
    found = []
    for course in courses().values():
        shares, batches = igniter_fig16.series(course)
        found += [shares[0], batches[0], shares[-1], batches[-1]]
    return tuple(found)


@cache
def _late_by_second() -> tuple[float, ...]:
    """Return the percentage of requests not in time of the worst workload with shadow processes, by second."""
    static, shadow = (igniter_fig17.course(policy) for policy in ("static", "shadow"))
    broken = igniter_fig17.violating(static)
    return tuple(map(max, zip(*(igniter_fig17.late_pct(shadow, workload) for workload in broken), strict=True)))


def _mended(_: Runs) -> Values:
    late = _late_by_second()
    return (*late[:3], max(late[3:]))


def _measured(found: Mapping[int, float]) -> Mapping[int, float]:
    if not found:
        raise NotAtHandError("no measurements")
    return found


def _beside_measured(_: Runs) -> Values:
    """Return the least and the largest measured growth of ResNet-50's latency beside a neighbour, in percent."""
    found = [
        growth
        for neighbour in igniter_motivation.NEIGHBOURS
        for growth in _measured(igniter_motivation.measured_slowdown(neighbour)).values()
    ]
    return 100.0 * (min(found) - 1.0), 100.0 * (max(found) - 1.0)


def _beside_predicted(_: Runs) -> Values:
    """Return the same growth as predicted by iGniter's own model."""
    found = [igniter_motivation.neighbour_slowdown("igniter", name) for name in igniter_motivation.NEIGHBOURS]
    return 100.0 * (min(map(min, found)) - 1.0), 100.0 * (max(map(max, found)) - 1.0)


def _l2_measured(_: Runs) -> Values:
    """Return the L2 utilisation of each neighbour at the smallest and the largest batch."""
    least, most = igniter_motivation.NEIGHBOUR_BATCHES[0], igniter_motivation.NEIGHBOUR_BATCHES[-1]
    found = [_measured(igniter_motivation.measured_l2_pct(name)) for name in igniter_motivation.NEIGHBOURS]
    return tuple(by_batch[batch] for by_batch in found for batch in (least, most))


def _demands(quantity: int) -> Callable[[Runs], Values]:
    """Query the predicted L2 utilisation (0) or power (1) of each neighbour at its smallest and largest batch."""

    def query(_: Runs) -> Values:
        found = [igniter_motivation.neighbour_demands(name)[quantity] for name in igniter_motivation.NEIGHBOURS]
        return tuple(float(values[end]) for values in found for end in (0, -1))

    return query


def _copies(_: Runs) -> Values:
    grown = [
        100.0 * (float(igniter_motivation.copies_slowdown("igniter", model, batch)[place]) - 1.0)
        for model in igniter_motivation.MODELS
        for batch in igniter_motivation.BATCHES
        for place in range(1, len(igniter_motivation.RESIDENTS))
    ]
    return min(grown), max(grown)


def _delay_per_workload(_: Runs) -> Values:
    """Return the growth of the scheduling delay per added workload beyond two: ResNet-50 and AlexNet, in ms."""
    delays = [igniter_motivation.scheduling_ms(model) for model in ("resnet50", "alexnet")]
    return tuple(float(delay[-1] - delay[1]) / (len(delay) - 2) for delay in delays)


def _slowed(_: Runs) -> Values:
    """Return the first number of VGG-19's copies that slows the GPU down, and the frequency with five of them."""
    frequency_mhz = igniter_motivation.frequency_mhz("vgg19")
    first = next(
        count for count, mhz in zip(igniter_motivation.RESIDENTS, frequency_mhz, strict=True) if mhz < frequency_mhz[0]
    )
    return first, float(frequency_mhz[-1])


def _fit_errors(_: Runs) -> Values:
    return tuple(100.0 * igniter_profile.relative_error(batch) for batch in igniter_profile.BATCHES)


_TABLE1 = tuple(igniter_table1.PAPER)


def _table1(of: Callable[[Row], int | None]) -> Callable[[Runs], Values]:
    def query(runs: Runs) -> Values:
        rows = {row.scheduler: row for row in runs.rows(igniter_table1.NEEDS[0])}
        return tuple(of(rows[scheduler]) for scheduler in _TABLE1)

    return query


MOTIVATION = (
    Claim(
        what="Fig. 3: growth of latency with two to five copies on the GPU",
        paper="0.83–34.98 %, together with Fig. 4",
        ours=_copies,
        form="{:.1f}–{:.1f} %",
        not_comparable="the paper states no batch, and its range covers two of its figures",
    ),
    Claim(
        what="Fig. 4: growth of ResNet-50's latency beside AlexNet and VGG-19, measured",
        paper="6.36–13.93 %",
        ours=_beside_measured,
        form="{:.1f}–{:.1f} %",
        holds=lambda least, most: least >= 6.36 and most <= 13.93,
        criterion="within the paper's range",
        note="only six of the paper's points are published",
    ),
    Claim(
        what="– the same, predicted by the model `igniter`",
        paper="6.36–13.93 %",
        ours=_beside_predicted,
        form="{:.1f}–{:.1f} %",
        holds=lambda least, most: least >= 6.36 and most <= 13.93,
        criterion="within the paper's range",
        reason="iGniter's model counts neither PCIe nor DRAM contention",
    ),
    Claim(
        what="– L2 utilisation at the smallest and the largest batch, AlexNet and VGG-19, measured",
        paper=(11.1, 18.4, 16.9, 22.0),
        ours=_l2_measured,
        form="{:.1f}–{:.1f} %, {:.1f}–{:.1f} %",
        within=5e-3,
    ),
    Claim(
        what="– the same, predicted by the model `igniter`",
        paper=(11.1, 18.4, 16.9, 22.0),
        ours=_demands(0),
        form="{:.1f}–{:.1f} %, {:.1f}–{:.1f} %",
        within=0.1,
        reason="the light profile fits a line to three samples",
    ),
    Claim(
        what="– power at the same batches, AlexNet and VGG-19, predicted by the model `igniter`",
        paper=(108, 156, 139, 179),
        ours=_demands(1),
        form="{:.0f}–{:.0f} W, {:.0f}–{:.0f} W",
        within=0.1,
        reason="the light profile fits a line to a few samples",
    ),
    Claim(
        what="Fig. 5: scheduling delay per added workload, ResNet-50 and AlexNet",
        paper="linear from two workloads on, larger for ResNet-50",
        ours=_delay_per_workload,
        form="{:.2g} and {:.2g} ms",
        not_comparable="our coefficients are fitted to these measurements",
    ),
    Claim(
        what="Fig. 7: number of VGG-19 copies from which the GPU throttles; frequency with five",
        paper="frequency falls once the power reaches the cap of 300 W",
        ours=_slowed,
        form="from {}, {:,.0f} MHz",
        not_comparable="our coefficients are fitted to these measurements",
    ),
    Claim(
        what=f"Fig. 8: mean error of equation 11, batches {', '.join(map(str, igniter_profile.BATCHES))}",
        paper="active time is inversely proportional to the share",
        ours=_fit_errors,
        form="{:.1f}, {:.1f}, {:.1f}, {:.1f}, {:.1f} %",
        holds=lambda *errors: max(errors) <= 10.0,
        criterion="at most 10 % at each batch",
        reason="small batches do not fill large shares",
    ),
    Claim(
        what=f"Table 1: GPUs for three workloads by {', '.join(_TABLE1)}",
        paper=tuple(gpus for gpus, _ in igniter_table1.PAPER.values()),
        ours=_table1(lambda row: row.gpus_used),
        form="{}, {}, {}",
    ),
    Claim(
        what="– workloads in violation",
        paper=tuple(violating for _, violating in igniter_table1.PAPER.values()),
        ours=_table1(lambda row: row.violations),
        form="{}, {}, {}",
        reason="the paper measures the original GSLICE and gpu-lets; here the judge checks iGniter's versions",
    ),
)

PLANS = (
    Claim(
        what="Table 1: plan of igniter for three workloads on one V100",
        paper=("A(10 %, 4) R(30 %, 8) V(37.5 %, 6)",),
        ours=_first_plan,
    ),
    *(
        Claim(
            what=f"Twelve workloads: GPUs of {scheduler}",
            paper=paper,
            ours=_gpus(twelve(scheduler)),
            form="{} (${:.2f}/h)",
            within=1e-3,
            note=note,
        )
        for scheduler, paper, note in (
            ("igniter", (6, 18.36), "every share is that of the published plan; a test compares them"),
            ("ffd+", (5, 15.30), ""),
            ("gpu-lets+", (8, 24.48), "planned with gpulet's pair model"),
            ("gslice+", (6, 18.36), ""),
        )
    ),
    Claim(
        what=f"Fig. 14: workloads in violation under igniter, {', '.join(BASELINES)}",
        paper=tuple(igniter_fig14_violations.PAPER[scheduler] for scheduler in ("igniter", *BASELINES)),
        ours=_simulated_late,
        form="{}, {}, {}, {}",
        reason="batch times vary on the paper's GPUs, but not in the simulation",
        note="simulated under constant arrivals; *Plans under random arrivals* varies the batch times",
    ),
    Claim(
        what="– latency budgets that the plans break, by the judge",
        paper=NOTHING_PUBLISHED,
        ours=_judged_late,
        form="{}, {}, {}, {}",
    ),
    *(
        Claim(
            what=f"Fig. 19: GPU and share of W2 by {scheduler}",
            paper=paper,
            ours=_place(scheduler),
            holds=lambda ours, paper=paper: str(ours).startswith(paper),
            criterion="the GPU, and the share if the paper states it",
            reason=reason,
        )
        for (scheduler, paper), reason in zip(
            igniter_fig19.PAPER.items(),
            ("", "our W5 has the smaller part of the same GPU", "no earlier GPU has room", ""),
            strict=True,
        )
    ),
    Claim(
        what="Fig. 20: GPUs for the twelve workloads on T4s",
        paper=(15, 7.89),
        ours=_gpus(T4),
        form="{} (${:.2f}/h)",
        not_comparable="the times of the T4 are calibrated to this number",
    ),
    Claim(
        what="– workloads that are split over several T4s",
        paper=("W7, W8, W10, W12",),
        ours=lambda runs: (_on_several(runs.row(T4)),),
        reason="the times of the T4 are calibrated",
    ),
    Claim(
        what="Coefficients α_f, α_sch, β_sch of the V100",
        paper=(-1.025, 0.00475, -0.00902),
        ours=_coefficients,
        form="{:.5g}, {:.5g}, {:.5g}",
        within=1e-3,
    ),
    *(
        Claim(
            what=f"Decision time, {workloads:,} workloads",
            paper=(igniter_fig21.PAPER_TIME_MS[workloads],),
            ours=_decision_ms(need),
            form="{:,.4g} ms",
            within=0.2,
            better=below(igniter_fig21.PAPER_TIME_MS[workloads]),
            note="compiled code on another machine",
        )
        for workloads, need in ((12, twelve("igniter")), (1000, THOUSAND))
    ),
)

OVER_TIME = (
    Claim(
        what="Fig. 15: throughput of W10 by GSLICE+ and by iGniter",
        paper="below its 150 req/s, and 150 req/s",
        ours=_throughput,
        form="{:.0f} and {:.0f} req/s",
        holds=lambda gslice, igniter: gslice < 0.99 * igniter_fig15.RATE_RPS <= igniter,
        criterion="GSLICE+ below 99 % of the rate, iGniter at or above it",
    ),
    Claim(
        what="Fig. 16: share and batch of W10 by GSLICE+",
        paper="gives share away; W9 beside it takes more share than the GPU has",
        ours=lambda runs: _share_and_batch(runs)[:4],
        form="{:g} %, {} at first; {:g} %, {} at last",
        holds=lambda first, _batch, last, _last_batch: last < first,
        criterion="the share falls",
        reason="here W10 takes the free share; no workload gets more than the GPU has",
    ),
    Claim(
        what="– by iGniter",
        paper="plans only once",
        ours=lambda runs: _share_and_batch(runs)[4:],
        form="{:g} %, {} at first; {:g} %, {} at last",
        holds=lambda first, batch, last, last_batch: (first, batch) == (last, last_batch),
        criterion="no change",
    ),
    Claim(
        what="Fig. 17: recovery from a wrong prediction with a shadow process",
        paper="P99 of W1 within its SLO after 1.5 s",
        ours=_mended,
        form="worst workload not in time: {:.0f}, {:.0f}, {:.0f} % in the first three seconds, then {:.0f} %",
        holds=lambda first, _second, _third, later: later <= 1.0 < first,
        criterion="above 1 % in the first second, at most 1 % after the third",
        note="the seed of the errors decides which workloads are late",
    ),
)
