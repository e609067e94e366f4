"""Answer about a plan in five lines: cost, proof, test, headroom and last straw."""

import math
from collections import Counter
from collections.abc import Mapping

from bench.fleet.last_straw import MOST_CANDIDATES, RATES, SLOS
from bench.fleet.replanning import Replanned
from bench.fleet.surviving import Surviving
from bench.formatting import gpu_count, percent, servers
from bench.holding.verdict import Holding
from bench.holding.wording import doubt_in_words, loads_in_words, power_in_words, simulations_in_words
from bench.judging.verdict import Verdict
from bench.ledger.bound_scope import scope_in_words
from bench.ledger.row import Row
from instances import Instance, Plan
from instances.costs import next_cost


def gpus_in_words(plan: Plan) -> str:
    """Return the GPUs of a plan by type, such as ``3 a100 + 1 t4``."""
    used = Counter(gpu.type for gpu in plan.gpus if gpu.gpulets)
    return " + ".join(f"{number} {name}" for name, number in sorted(used.items())) or "no GPUs"


def cost_line(plan: Plan, cost: float, practice: Mapping[str, tuple[Row, Holding | None]]) -> str:
    """Return the saving over each of today's practices whose plan holds, and the GPUs with their price.

    A practice can be cheaper than the best plan only if its model ignores interference, as time slicing does. It is
    then named without a saving.
    """
    savings, others = [], []
    for name, (other, held) in practice.items():
        if other.cost_per_hour is None:
            others.append(f"{name} finds no plan")
            continue
        gpus = f"{gpu_count(other.gpus_used or 0)}, ${other.cost_per_hour:,.2f}/h"
        if held is not None and held.holds is False:
            others.append(f"{name} takes {gpus} and does not hold on {servers(held.dropping)}")
        elif held is not None and held.holds is None:
            others.append(f"{name} takes {gpus}, and the test cannot tell whether it holds on {servers(held.dropping)}")
        elif other.cost_per_hour < cost:
            others.append(f"{name} would take {gpus} if its processes did not slow each other down")
        elif other.cost_per_hour > 0.0:
            savings.append(f"{100.0 * (1.0 - cost / other.cost_per_hour):.0f} % over {name} ({gpus})")
    answer = f"{gpus_in_words(plan)} for ${cost:,.2f}/h"
    sentence = f"saves {', '.join(savings)}: {answer}" if savings else answer
    return "; ".join([sentence, *others])


def proof_line(row: Row, instance: Instance) -> str:
    """Return the number of GPUs, or the price, that is proven too low."""
    if row.bound is None or not row.bound_certified or row.cost_per_hour is None:
        return "proven: nothing in the time allowed"
    bound = min(next_cost(row.bound, instance), row.cost_per_hour)
    where = f"in the class {scope_in_words(row.bound_scope)}" if row.bound_scope else ""
    price = instance.gpus[0].type.price_per_hour
    if bound >= row.cost_per_hour * (1.0 - 1e-9):
        return f"proven: no plan is cheaper {where}".rstrip()
    if len(instance.gpus) == 1 and price > 0.0:
        least = max(1, math.ceil(bound / price - 1e-6))
        few, open_ = (f"{n} GPU{'s are' if n > 1 else ' is'}" for n in (least - 1, least))
        return f"proven: {few} too few, {open_} not excluded {where}".rstrip()
    return f"proven: below ${math.floor(100.0 * bound + 1e-6) / 100:,.2f}/h there is no plan {where}".rstrip()


def holding_line(found: Holding) -> str:
    """Return whether the plan holds in simulations, and on which servers."""
    test = f"{simulations_in_words(found)}, {found.requests:,} requests"
    target, on = percent(found.target), servers(found.dropping)
    if found.holds:
        of_all = f"{percent(found.attainment)} of all; {test}"
        return f"holds on {on}: every service keeps {target} in time ({of_all}; {power_in_words(found)})"
    if found.holds is None:
        return f"may hold on {on}: {doubt_in_words(found)} ({test})"
    late = ", ".join(f"{one.workload} {percent(one.attainment)}" for one in found.late[:3]) or "all together"
    loads = loads_in_words(found)
    return f"does not hold on {on}: {late} below {target} in time ({test}{f'; {loads}' if loads else ''})"


def dropping_line(found: Row, cost_per_hour: float) -> str:
    """Return what it costs that the servers drop no requests; ``found`` is the run for servers that do."""
    if found.cost_per_hour is None or not found.feasible:
        return "  not dropping: no plan was found for servers that drop late requests"
    more = cost_per_hour - found.cost_per_hour
    price = f"${more:,.2f}/h more" if more > 1e-9 else "nothing"
    gpus = f"{gpu_count(found.gpus_used or 0)}, ${found.cost_per_hour:,.2f}/h"
    return f"  not dropping costs {price}: servers that drop late requests would take {gpus}"


def headroom_line(verdict: Verdict) -> str:
    """Return the service whose batches may slow down least before its SLO breaks."""
    if not verdict.slots:
        return "least headroom: there is no service"
    tightest = min(verdict.slots, key=lambda slot: slot.budget_ms / slot.t_gpu_ms)
    spare = tightest.budget_ms / tightest.t_gpu_ms - 1.0
    times = f"{tightest.t_gpu_ms:.3g} of {tightest.budget_ms:.3g} ms per batch"
    return f"least headroom: {tightest.workload}, its batches may take {100.0 * spare:.1f} % longer ({times})"


def straw_line(found: tuple[str, Plan] | None, instance: Instance, cost_per_hour: float) -> str:
    """Return the last straw: a service that saves a GPU by a lower rate or a longer SLO, confirmed by solving again."""
    if found is None:
        least, slowest = 100.0 * (1.0 - RATES[0]), 100.0 * (SLOS[0] - 1.0)
        given_up = f"{least:.0f} % of its rate or {slowest:.0f} % on its SLO"
        return f"last straw: none of the {MOST_CANDIDATES} dearest services saves a GPU by giving up {given_up}"
    words, plan = found
    saved = cost_per_hour - instance.cost_per_hour(plan.gpus)
    return f"last straw: {words} saves ${saved:,.2f}/h and takes {gpus_in_words(plan)} (solved again)"


def moves_line(found: Replanned, cost_per_hour: float, unlimited_per_hour: float) -> str:
    """Return the moves of a replanned plan, and what the limit on them costs."""
    more = cost_per_hour - unlimited_per_hour
    moved = f"{len(found.moved)} services change their GPU ({', '.join(found.moved)})" if found.moved else "no moves"
    price = f"the limit costs ${more:,.2f}/h" if more > 1e-9 else "without the limit, no cheaper plan was found"
    searched = "" if found.complete else "; not every choice of moves was tried in time"
    return f"  moves: {moved}; {price}{searched}"


def spare_line(found: Surviving) -> str:
    """Return the spare GPU, its price, and the proof that less does not suffice."""
    proof = "proven least"
    if found.bound_per_hour < found.cost_per_hour * (1.0 - 1e-6):
        proof = f"proven: at least ${found.bound_per_hour:,.2f}/h"
    total = f"${found.cost_per_hour:,.2f}/h with it"
    return f"  survives any one GPU with a spare {found.spare}: {total} ({proof})"
