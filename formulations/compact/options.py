"""Options of the compact model: a workload on one GPU type, its configurations, and the ranges they span."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from formulations.problem import Offer, Problem
from instances import Instance, Objective, SloRule
from instances.arrays import Floats, Ints
from instances.configurations import Configurations, rates_of, servable_configurations
from instances.dominance import why_not_exact
from instances.gpu import DnnModel
from instances.least_shares import delay_is_one_line
from instances.performance import performance_model
from instances.view import View

Range = tuple[float, float]
"""Least and largest value."""

FORMULA = "igniter"
"""Performance model whose active time is a formula of batch and share; other models have tables."""

ANALYTIC_RULES = frozenset({SloRule.HALF_SLO, SloRule.ASSEMBLY, SloRule.DUTY_CYCLE})
"""SLO rules whose latency budget is a formula of batch and rate; the budgets of the other rules are tables."""


@dataclass(frozen=True, slots=True)
class Option:
    """A workload on one GPU type.

    Attributes
    ----------
    workload, offer
        Position of the workload in the instance, and of the GPU type among the offers.
    configurations
        Configurations of the workload there, at least one.
    """

    workload: int
    offer: int
    view: View
    configurations: Configurations

    @property
    def row(self) -> int:
        """Row of the workload's DNN model in the tables of the GPU type."""
        return int(self.view.model[self.workload])

    @property
    def dnn(self) -> DnnModel:
        """The workload's DNN model with its coefficients."""
        return self.view.gpu.model(self.view.instance.workloads[self.workload].model)

    @property
    def loading_overlaps(self) -> bool:
        """Whether the upload of a batch overlaps with the execution of the one before."""
        return performance_model(self.view.instance.performance_model).loading_overlaps

    @property
    def has_batching_time(self) -> bool:
        """Whether assembling a batch on the host takes time."""
        return self.dnn.solo is not None and any(self.dnn.solo.batching_ms)

    @property
    def active_ms(self) -> Floats:
        """Active time ``k_act`` of each configuration (iGniter equation 11)."""
        return self.view.tables.active_ms[self.row, self.configurations.batch, self.configurations.units]

    @property
    def ability(self) -> Floats:
        """Processing ability ``1000 b / k_act`` of each configuration, requests per second."""
        return 1000.0 * self.configurations.batch / self.active_ms

    @property
    def batch(self) -> Range:
        """Least and largest batch."""
        return span(self.configurations.batch)

    @property
    def units(self) -> Range:
        """Least and largest share, in units."""
        return span(self.configurations.units)


def span(values: Floats | Ints) -> Range:
    """Return the least and the largest of ``values``."""
    return float(values.min()), float(values.max())


def why_not_compact(instance: Instance) -> str:
    """Return the reason why the compact model cannot state this instance; empty if it can."""
    if instance.slo_rule not in ANALYTIC_RULES:
        return f"the budget of {instance.slo_rule} is a table, not a formula of batch and rate"
    if instance.services:
        return "the budget of decoding is a table, not a formula of batch and rate"
    for pool in instance.gpus:
        tables = View.of(instance, pool.type).tables
        if instance.performance_model == FORMULA and len(tables.permitted) != tables.share_units:
            return f"{pool.type.name} permits only some shares, but the compact model has every integer unit"
        if reason := why_not_exact(tables):
            return f"{pool.type.name}: {reason}"
        if not delay_is_one_line(tables):
            return f"{pool.type.name}: its scheduling delay jumps with the first neighbour; the model has one line"
    return ""


def problem_of(instance: Instance, narrow: bool = True) -> Problem:
    """Return the problem of an instance for which ``why_not_compact`` returns no reason.

    Parameters
    ----------
    narrow
        Leave out the configurations that no optimal plan needs (``cost`` and ``goodput``; under ``capacity`` any share
        may be optimal). Otherwise the problem has every configuration that is feasible alone on a GPU.
    """
    problem = Problem(instance, [rates_of(instance, w) for w in range(len(instance.workloads))])
    if not narrow or instance.objective is Objective.CAPACITY:
        problem.offers = [
            replace(
                offer,
                configurations=[servable_configurations(offer.view, w, rates) for w, rates in enumerate(problem.rates)],
            )
            for offer in problem.offers
        ]
    return problem


def options_of(offers: Sequence[Offer]) -> list[Option]:
    """List the options of every workload; a workload that no GPU type serves alone has none."""
    options = [
        Option(w, offer_position, offer.view, configurations)
        for offer_position, offer in enumerate(offers)
        for w, configurations in enumerate(offer.configurations)
        if configurations.size
    ]
    return sorted(options, key=lambda option: (option.workload, option.offer))
