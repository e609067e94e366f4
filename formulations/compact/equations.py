"""iGniter's sixteen equations, in the order of their numbers, as rows and expressions of the compact model.

``m`` is the Pyomo model, ``o`` an option (a workload on one GPU type), and ``(t, k)`` GPU number k of type t. A row
with a ``big_m_term`` binds only on the GPU of its option; elsewhere the term is too large.
``formulations.compact.build`` adds the rows to the model in another order. Where active times and demands are tables
(every performance model but iGniter's), ``formulations.compact.tables`` replaces equation 11 and the demands in
equations 8 and 10.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyomo.environ as pyo

from formulations.compact.model import ROW_TOLERANCE, CompactModel, Expr, Relation, sum_of
from formulations.compact.options import Option
from instances import SloRule
from instances.arrays import Floats
from instances.performance.model import batching_ms
from instances.tables import Tables


def inference_ms(m: Any, o: int, option: Option) -> Expr:
    """Return ``t_inf``, the time from the upload of a batch to the feedback of its results (equation 1)."""
    transfer_ms, _ = transfers_ms(m, o, option)
    return m.t_gpu[o] + transfer_ms


def throughput(m: Any, o: int, option: Option) -> Relation:
    """Return the relation of the throughput ``h`` (equation 2)."""

    def largest_throughput(b: float, t_gpu: float) -> float:
        # In requests per second
        return 1000.0 * b / (t_gpu + float(_exposed_ms(option, np.array(b))))

    _, exposed_ms = transfers_ms(m, o, option)
    exact = m.throughput[o] * (m.t_gpu[o] + exposed_ms) <= 1000.0 * m.b[o]
    scale = 1000.0 * m.b[o].ub
    relaxed = m.throughput[o] / scale * (m.t_gpu[o] + exposed_ms) <= (1.0 + ROW_TOLERANCE) * m.b[o] / m.b[o].ub
    return Relation("throughput", m.throughput[o], m.b[o], m.t_gpu[o], largest_throughput, exact, (relaxed,))


def most_throughput(option: Option) -> float:
    """Return the largest throughput of the option alone (equation 2)."""
    batch = option.configurations.batch
    return float((1000.0 * batch / (option.active_ms + _exposed_ms(option, batch.astype(float)))).max())


def transfers_ms(m: Any, o: int, option: Option) -> tuple[Expr, Expr]:
    """Return the time of upload and feedback of a batch, and the part of it that overlaps no execution (equation 3).

    Both are linear in the batch, apart from a batching time (``formulations.compact.batching``).
    """
    transfer_ms, exposed_ms = (per_request * m.b[o] for per_request in _bus_ms(option))
    if option.has_batching_time:
        transfer_ms += m.batching_ms[o]
        if not option.loading_overlaps:
            exposed_ms += m.batching_ms[o]
    return transfer_ms, exposed_ms


def _bus_ms(option: Option) -> tuple[float, float]:
    """Return the transfer time of a request over the bus, and the part of it that overlaps no execution."""
    tables, row = option.view.tables, option.row
    transfer_ms, exposed_ms = float(tables.transfer_ms[row, 1]), float(tables.exposed_ms[row, 1])
    single_ms = float(batching_ms(option.dnn, np.array(1.0)))
    return transfer_ms - single_ms, exposed_ms if option.loading_overlaps else exposed_ms - single_ms


def _exposed_ms(option: Option, batch: Floats) -> Floats:
    """Return the part of the transfers that overlaps no execution, by batch."""
    _, per_request_ms = _bus_ms(option)
    exposed_ms: Floats = per_request_ms * batch
    return exposed_ms if option.loading_overlaps else exposed_ms + batching_ms(option.dnn, batch)


def gpu_time(m: Any, o: int, t_sch: Expr, t_act: Expr) -> tuple[Expr, Relation]:
    """Return the row of ``t_gpu f / F >= t_sch + t_act``, and the relation of its product (equation 4).

    ``f / F`` is ``1 - slowdown``, and ``lost_ms`` is ``t_gpu * slowdown``.
    """
    row = m.t_gpu[o] - m.lost_ms[o] >= t_sch + t_act
    return row, product("lost_ms", m.lost_ms[o], m.t_gpu[o], m.slowdown[o])


def scheduling_ms(m: Any, o: int, option: Option) -> Expr:
    """Return ``t_sch``, the scheduling delay of all kernels (equation 5)."""
    tables, row = option.view.tables, option.row
    return float(tables.scheduling_ms[row]) + float(tables.kernels[row]) * m.delay[o]


def added_delay(m: Any, o: int, tables: Tables, residents: Expr, big_m_term: Expr) -> Expr:
    """Return the row of the added delay per kernel, the larger of zero and a line in the residents (equation 6)."""
    return m.delay[o] >= tables.alpha_sch * residents + tables.beta_sch - big_m_term


def placed(m: Any) -> Any:
    """Return the variables ``v``: whether an option is on a GPU (equation 7)."""
    return pyo.Var(m.V, domain=pyo.Binary, doc="1 if option o is on GPU k of type t")


def others_l2(m: Any, o: int, neighbours: Iterable[Expr], big_m_term: Expr) -> Expr:
    """Return the row of the L2 demand of an option's neighbours (equation 8)."""
    return m.others_l2[o] >= sum_of(neighbours) - big_m_term


def active_ms(m: Any, o: int, option: Option) -> tuple[Expr, list[Relation]]:
    """Return ``t_act`` beside others, and the relations of its products (equation 8; DRAM: InSS, Sec. 4.1)."""
    tables, row = option.view.tables, option.row
    t_act = m.k_act[o] + float(tables.alpha_l2[row]) * m.cache_ms[o]
    products = [product("cache_ms", m.cache_ms[o], m.k_act[o], m.others_l2[o])]
    if tables.alpha_dram[row] > 0.0:
        t_act += float(tables.alpha_dram[row]) * m.dram_ms[o]
        products.append(product("dram_ms", m.dram_ms[o], m.k_act[o], m.others_dram[o]))
    return t_act, products


def slowdown(m: Any, o: int, tables: Tables, power_w: Expr, big_m_term: Expr) -> Expr:
    """Return the row of the lost clock ``1 - f / F``, the larger of zero and a line in the power (equation 9)."""
    return m.slowdown[o] >= -tables.throttle_per_w * power_w - big_m_term


def power_above_cap_w(tables: Tables, demands_w: Expr) -> Expr:
    """Return the power demand of all residents and of the idle GPU above the power cap (equation 10)."""
    return (tables.idle_power_w - tables.max_power_w) + demands_w


def active_time_alone(m: Any, o: int, option: Option) -> list[Relation]:
    """Return the relations of ``k_act``, the active time alone, and of the ability ``1000 b / k_act`` (equation 11).

    L2 demand and power depend on the ability. Rows with tolerance are divided by their largest value.
    """
    k1, k2, k3, k4, k5 = option.dnn.k
    pct = option.view.gpu.share_pct(1)
    points = np.stack([option.configurations.batch, option.configurations.units], axis=1)

    def k_act(b: float, r: float) -> float:
        return (k1 * b * b + k2 * b + k3) / (pct * r + k4) + k5

    def ability(b: float, r: float) -> float:
        return 1000.0 * b / k_act(b, r)

    b, r = m.b[o], m.r[o]
    active_product, batch_polynomial = (m.k_act[o] - k5) * (pct * r + k4), k1 * b**2 + k2 * b + k3
    served, served_batches = m.ability[o] * m.k_act[o], 1000.0 * b
    largest_polynomial = max(k1 * x * x + k2 * x + k3 for x in option.batch)
    scaled_product = (m.k_act[o] - k5) * ((pct * r + k4) / largest_polynomial)
    scaled_polynomial = batch_polynomial / largest_polynomial
    scaled_served, scaled_batches = served / (1000.0 * option.batch[1]), b / option.batch[1]
    # A smaller ability needs a larger k_act and would reduce interference, so k_act is bounded from both sides.
    relaxed = (
        scaled_product >= (1.0 - ROW_TOLERANCE) * scaled_polynomial,
        scaled_product <= (1.0 + ROW_TOLERANCE) * scaled_polynomial,
    )
    relaxed_ability = (scaled_served >= (1.0 - ROW_TOLERANCE) * scaled_batches,)
    return [
        Relation("k_act", m.k_act[o], b, r, k_act, active_product == batch_polynomial, relaxed, points),
        Relation("ability", m.ability[o], b, r, ability, served == served_batches, relaxed_ability, points),
    ]


def cost(model: CompactModel) -> Expr:
    """Return the price of the GPUs in use (equation 12)."""
    m = model.pyomo
    prices = [offer.view.gpu.price_per_hour / model.objective_unit for offer in model.offers]
    return sum_of(prices[t] * m.used[t, k] for t, k in m.J)


def rate_row(m: Any, o: int, option: Option, period_ms: Expr) -> Expr:
    """Return the row of the rate: a batch is served within the time in which its requests arrive (equations 13 and 2).

    In a duty cycle no transfer overlaps an execution.
    """
    transfer_ms, exposed_ms = transfers_ms(m, o, option)
    instance = option.view.instance
    delaying_ms = exposed_ms if instance.slo_rule is SloRule.HALF_SLO else transfer_ms
    return m.t_gpu[o] + delaying_ms <= period_ms / instance.latency_buffer


def latency_row(m: Any, o: int, option: Option) -> Expr:
    """Return the row of the latency within half the SLO (equations 14 and 1); a duty cycle of SLO/2 gives the same."""
    instance = option.view.instance
    slo_ms = instance.workloads[option.workload].slo_ms
    return inference_ms(m, o, option) <= slo_ms / 2.0 / instance.latency_buffer


def shares_row(m: Any, t: int, k: int, tables: Tables, shares: Iterable[Expr]) -> Expr:
    """Return the row of the shares on a GPU: together at most the whole GPU (equation 15)."""
    return sum_of(shares) <= tables.share_units * m.used[t, k]


def placement_row(placed_count: Expr) -> Expr:
    """Return the row of a workload's placement: one of its options is on a GPU (equation 16)."""
    return placed_count == 1


def product(name: str, result: Expr, first: Expr, second: Expr) -> Relation:
    """Return the relation of a product of two variables."""
    scale = max(1.0, result.ub)
    relaxed = result / scale >= (1.0 - ROW_TOLERANCE) / scale * first * second
    return Relation(name, result, first, second, lambda x, y: x * y, result >= first * second, (relaxed,))
