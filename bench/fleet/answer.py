"""Answer about a plan: five lines (cost, proof, test, slack and last straw), and lines about the costs of options."""

import math
from collections import Counter
from collections.abc import Mapping

from bench.fleet.last_straw import MOST_CANDIDATES, RATE_FACTORS, SLO_FACTORS
from bench.fleet.lower_bound import lower_bound
from bench.fleet.replanning import Replanned
from bench.fleet.surviving import Surviving
from bench.formatting import gpu_count, percent, servers
from bench.holding.verdict import Holding
from bench.holding.wording import doubt_in_words, loads_in_words, power_in_words, simulations_in_words
from bench.judging.verdict import Verdict
from bench.ledger.bound_scope import scope_in_words
from bench.ledger.row import Row
from instances import Instance, Partition, Plan
from instances.costs import next_cost
from instances.measurements import MEASURED_RESIDENTS
from instances.tolerance import TOLERANCE


def gpus_in_words(plan: Plan) -> str:
    """Return the GPUs of a plan by type, such as ``3 a100 + 1 t4``."""
    used = Counter(gpu.type for gpu in plan.gpus if gpu.gpulets)
    return " + ".join(f"{number} {name}" for name, number in sorted(used.items())) or "no GPUs"


def cost_line(plan: Plan, cost: float, practice: Mapping[str, tuple[Row, Holding | None]]) -> str:
    """Return the GPUs with their price, and the saving over each of today's practices whose plan holds.

    A practice can be cheaper than the best plan only if its model, such as that of time slicing, ignores interference.
    The line then names the practice without a saving.
    """
    savings, remarks = [], []
    for name, (row, result) in practice.items():
        if row.cost_per_hour is None:
            remarks.append(f"{name} finds no plan")
            continue
        gpus = f"{gpu_count(row.gpus_used or 0)}, ${row.cost_per_hour:,.2f}/h"
        if result is not None and result.holds is False:
            remarks.append(f"{name} takes {gpus} and does not hold on {servers(result.dropping)}")
        elif result is not None and result.holds is None:
            remarks.append(
                f"{name} takes {gpus}, and the test cannot tell whether it holds on {servers(result.dropping)}"
            )
        elif row.cost_per_hour < cost:
            remarks.append(f"{name} would take {gpus} if its processes did not slow each other down")
        elif row.cost_per_hour > 0.0:
            savings.append(f"{100.0 * (1.0 - cost / row.cost_per_hour):.0f} % over {name} ({gpus})")
    answer = f"{gpus_in_words(plan)} for ${cost:,.2f}/h"
    sentence = f"saves {', '.join(savings)}: {answer}" if savings else answer
    return "; ".join([sentence, *remarks])


def proof_line(row: Row, instance: Instance, cost_per_hour: float | None) -> str:
    """Return the number of GPUs, or the price, below which no plan exists.

    The proof is the certified bound of the run, or the bound by compute and memory if that is higher. ``cost_per_hour``
    is the cost of the best plan, ``None`` without one.
    """
    bound, in_class = 0.0, ""
    if instance.partition is Partition.SHARES:
        bound, resource = lower_bound(instance)
        in_class = f"in any class, by {resource} alone"
    if row.bound is not None and row.bound_certified:
        certified = next_cost(row.bound, instance)
        if certified > bound * (1.0 + 1e-9):
            bound, in_class = certified, f"in the class {scope_in_words(row.bound_scope)}" if row.bound_scope else ""
    if bound <= 0.0:
        return "proven: nothing in the time allowed"
    if instance.partition is Partition.MIG:
        in_class += ", each batch within half of the SLO"
        if instance.latency_buffer != 1.0:
            in_class += f" if it took {instance.latency_buffer:g} times as long as measured"
    price = instance.gpus[0].type.price_per_hour
    if cost_per_hour is None:
        cost_per_hour = math.inf
    bound = min(bound, cost_per_hour)
    if bound >= cost_per_hour * (1.0 - 1e-9):
        return f"proven: no plan is cheaper {in_class}".rstrip()
    if len(instance.gpus) == 1 and price > 0.0:
        gpus_not_excluded = max(1, math.ceil(bound / price - 1e-6))
        too_few, not_excluded = (
            f"{number} GPU{'s are' if number > 1 else ' is'}" for number in (gpus_not_excluded - 1, gpus_not_excluded)
        )
        if gpus_not_excluded == 1:
            return f"proven: every plan takes at least 1 GPU, {in_class}".removesuffix(", ")
        return f"proven: {too_few} too few, {not_excluded} not excluded {in_class}".rstrip()
    return f"proven: below ${math.floor(100.0 * bound + 1e-6) / 100:,.2f}/h there is no plan {in_class}".rstrip()


def holding_line(holding: Holding) -> str:
    """Return whether the plan holds in simulations, and on which servers."""
    test = f"{simulations_in_words(holding)}, {holding.requests:,} requests"
    target, server_kind = percent(holding.target), servers(holding.dropping)
    if holding.holds:
        measured = f"{percent(holding.attainment)} of all; {test}"
        return f"holds on {server_kind}: every service keeps {target} in time ({measured}; {power_in_words(holding)})"
    if holding.holds is None:
        return f"may hold on {server_kind}: {doubt_in_words(holding)} ({test})"
    late = (
        ", ".join(
            f"{workload_result.workload} {percent(workload_result.attainment)}" for workload_result in holding.late[:3]
        )
        or "all together"
    )
    loads = loads_in_words(holding)
    return f"does not hold on {server_kind}: {late} below {target} in time ({test}{f'; {loads}' if loads else ''})"


def routing_line(plan: Plan, cost: float, at_random: Holding, in_turns: Holding | None) -> str:
    """Return the price of random routing; ``in_turns`` is the test of the same plan with routing in turns.

    Plans assume that the servers of a service receive independent streams of requests, as under random routing. The
    plan for routing in turns is therefore the same, and only the fractions in time differ.
    """
    servers_of = Counter(slot.workload for _, _, slot in plan.slots())
    split = {name for name, number in servers_of.items() if number > 1}
    if not split or in_turns is None:
        return "  random routing costs nothing: no service has several servers"
    fractions = [
        f"{random.workload} {percent(random.attainment)} and {percent(turns.attainment)}"
        for random, turns in zip(at_random.workloads, in_turns.workloads, strict=True)
        if random.workload in split
    ]
    more = f" and {len(fractions) - 3} more" if len(fractions) > 3 else ""
    return (
        f"  random routing costs nothing: the plan for turns is the same {gpus_in_words(plan)} for ${cost:,.2f}/h;"
        f" in time at random and in turns: {', '.join(fractions[:3])}{more}"
    )


def dropping_line(dropping_row: Row, cost_per_hour: float) -> str:
    """Return the extra cost of servers that drop no requests; ``dropping_row`` is a run with dropping."""
    if dropping_row.cost_per_hour is None or not dropping_row.feasible:
        return "  not dropping: no plan was found for servers that drop late requests"
    extra_per_hour = cost_per_hour - dropping_row.cost_per_hour
    price = f"${extra_per_hour:,.2f}/h more" if extra_per_hour > 1e-9 else "nothing"
    gpus = f"{gpu_count(dropping_row.gpus_used or 0)}, ${dropping_row.cost_per_hour:,.2f}/h"
    return f"  not dropping costs {price}: servers that drop late requests would take {gpus}"


def without_dropping_line(test: Holding) -> str:
    """Return the fractions in time on servers that drop no requests; ``test`` is the test of the plan on them."""
    lowest = min(test.workloads, key=lambda workload: workload.attainment, default=None)
    if lowest is None:
        return "  without dropping: there are no requests"
    served = f"{percent(test.attainment)} of all requests are in time, {lowest.workload} {percent(lowest.attainment)}"
    return f"  the same plan on {servers(test.dropping)}: {served}"


def margin_lines(cost_per_hour: float, variant_rows: Mapping[str, Row], *, guessed: bool) -> list[str]:
    """Return a line with the cost of the margin or of guessed interference; no line if ``variant_rows`` has no plan.

    Parameters
    ----------
    cost_per_hour
        Cost of the best plan with the margin.
    variant_rows
        Rows of runs on the same instance with a smaller margin on times beside others, or with a smaller guess of the
        interference, by the name of the change.
    guessed
        Whether the interference is a guess.
    """
    saved_per_hour = saved_by_measuring(cost_per_hour, variant_rows)
    cheaper_plans = [
        f"{name} {gpu_count(row.gpus_used or 0)}, ${row.cost_per_hour:,.2f}/h"
        for name, row in variant_rows.items()
        if row.cost_per_hour is not None and row.feasible
    ]
    if not cheaper_plans:
        return []
    cause = "a guess of the interference" if guessed else "the margin"
    others = f"{', '.join(cheaper_plans)}, which may be late"
    if saved_per_hour == 0.0:
        return [f"  {cause} costs nothing: {others}; measuring more pairs saves no GPU"]
    price = f"up to ${saved_per_hour:,.2f}/h"
    return [f"  {cause} costs {price}: {others}; measuring more pairs can save {price}"]


def saved_by_measuring(cost_per_hour: float, variant_rows: Mapping[str, Row]) -> float:
    """Return how much cheaper the cheapest plan with less margin is: measuring more pairs cannot save more."""
    costs = [row.cost_per_hour for row in variant_rows.values() if row.cost_per_hour is not None and row.feasible]
    saved_per_hour = cost_per_hour - min(costs, default=cost_per_hour)
    return saved_per_hour if saved_per_hour > 1e-9 else 0.0


def extrapolation_lines(plan: Plan, instance: Instance) -> list[str]:
    """Return lines on more services on a GPU, and smaller shares, than were measured; none if the plan has neither."""
    if instance.partition is Partition.MIG or instance.services:
        return []
    lines = []
    crowded_residents = [len(gpu.gpulets) for gpu in plan.gpus if len(gpu.gpulets) > MEASURED_RESIDENTS]
    if crowded_residents:
        numbers = " or ".join(map(str, sorted(set(crowded_residents))))
        lines.append(
            f"  extrapolated: {gpu_count(len(crowded_residents))} with {numbers} services;"
            f" interference was measured between {MEASURED_RESIDENTS}"
        )
    types, small = {pool.type.name: pool.type for pool in instance.gpus}, []
    for position, gpulet, slot in plan.slots():
        gpu_type = types[plan.gpus[position].type]
        share_pct = 100.0 * gpulet.share_units / gpu_type.share_units
        solo = gpu_type.models[instance.model_of[slot.workload]].solo
        if solo is not None and share_pct < solo.share_pct[0] * (1.0 - TOLERANCE):
            small.append(f"{slot.workload} {share_pct:.3g} % (from {solo.share_pct[0]:g} %)")
    if small:
        lines.append(f"  extrapolated: shares below the least measured one: {', '.join(small)}")
    return lines


def memory_line(plan: Plan, instance: Instance) -> str:
    """Return the memory of the plan's processes: base (weights, CUDA context) and per request (KV cache)."""
    model_of = instance.model_of
    types = {pool.type.name: pool.type for pool in instance.gpus}
    base_mib, requests_mib, fullest = 0.0, 0.0, (0.0, "")
    for position, gpu in enumerate(plan.gpus):
        gpu_type = types[gpu.type]
        slots = [
            (gpu_type.models[model_of[slot.workload]], slot.batch) for gpulet in gpu.gpulets for slot in gpulet.slots
        ]
        gpu_base_mib = math.fsum(model.memory_base_mib for model, _ in slots)
        gpu_requests_mib = math.fsum(model.memory_per_item_mib * batch for model, batch in slots)
        base_mib, requests_mib = base_mib + gpu_base_mib, requests_mib + gpu_requests_mib
        used_mib = gpu_base_mib + gpu_requests_mib
        words = f"GPU {position} is fullest with {used_mib:,.0f} of {gpu_type.memory_mib:,.0f} MiB"
        fullest = max(fullest, (used_mib / gpu_type.memory_mib, words))
    return (
        f"  memory: {base_mib:,.0f} MiB of weights and CUDA contexts, {requests_mib:,.0f} MiB of KV cache and"
        f" activations; {fullest[1]}"
    )


def slack_line(verdict: Verdict, row: Row) -> str:
    """Return the service with the least slack, and how much longer than planned its latencies may be.

    If ``row`` has a bound on the slack of plans of this cost, the line ends with it.
    """
    slacks = [(slot.slack, slot) for slot in verdict.slots if slot.slack is not None]
    if not slacks:
        return "least slack: there is no service"
    slack, tightest = min(slacks, key=lambda pair: pair[0])
    times = f"{tightest.t_gpu_ms:.3g} of {tightest.budget_ms:.3g} ms per batch"
    line = f"least slack: {tightest.workload}, its latencies may be {percent(slack)} longer than planned ({times})"
    bound = row.least_slack_bound
    if bound is None or row.cost_per_hour is None or not math.isclose(row.cost_per_hour, verdict.cost_per_hour):
        return line
    in_class = f" in the class {scope_in_words(row.bound_scope)}" if row.bound_scope else ""
    return f"{line}; proven: no plan of this cost{in_class} leaves more than {percent(bound)}"


def straw_line(straw: tuple[str, Plan] | None, instance: Instance, cost_per_hour: float) -> str:
    """Return the last straw: a service that saves a GPU by a lower rate or a longer SLO, confirmed by solving again."""
    if straw is None:
        smallest_pct, longest_pct = 100.0 * (1.0 - RATE_FACTORS[0]), 100.0 * (SLO_FACTORS[0] - 1.0)
        relaxations = f"{smallest_pct:.0f} % of its rate or {longest_pct:.0f} % on its SLO"
        return f"last straw: none of the {MOST_CANDIDATES} dearest services saves a GPU by giving up {relaxations}"
    relaxation, plan = straw
    saving_per_hour = cost_per_hour - instance.cost_per_hour(plan.gpus)
    return f"last straw: {relaxation} saves ${saving_per_hour:,.2f}/h and takes {gpus_in_words(plan)} (solved again)"


def moves_line(replanned: Replanned, cost_per_hour: float, unlimited_per_hour: float) -> str:
    """Return the moves of a replanned plan, and the extra cost of the limit on moves."""
    extra_per_hour = cost_per_hour - unlimited_per_hour
    moves = (
        f"{len(replanned.moved)} services change their GPU ({', '.join(replanned.moved)})"
        if replanned.moved
        else "no moves"
    )
    price = (
        f"the limit costs ${extra_per_hour:,.2f}/h"
        if extra_per_hour > 1e-9
        else "without the limit, no cheaper plan was found"
    )
    searched = "" if replanned.complete else "; not every choice of moves was tried in time"
    return f"  moves: {moves}; {price}{searched}"


def spare_line(survivor: Surviving) -> str:
    """Return the spare GPU, the price of the plan with it, and the proven lower bound on this price."""
    proof = "proven least"
    if survivor.bound_per_hour < survivor.cost_per_hour * (1.0 - 1e-6):
        proof = f"proven: at least ${survivor.bound_per_hour:,.2f}/h"
    total = f"${survivor.cost_per_hour:,.2f}/h with it"
    return f"  survives any one GPU with a spare {survivor.spare}: {total} ({proof})"
