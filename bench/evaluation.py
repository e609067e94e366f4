"""Conditions of planning and evaluation: headroom, true or distorted performance model, and simulation."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bench.simulation.arrivals import Arrivals
from instances import InputError, Instance, Plan
from instances.errors import FieldName
from instances.misspecification import misspecified
from instances.performance.margins import check_level, planned_with_margins

if TYPE_CHECKING:
    from bench.holding.verdict import Holding
    from bench.judging.measured import MeasuredTruth

MOST_REQUESTS = 100_000_000
"""Largest number of requests in the simulation of a row: about four seconds of one core for igniter-12."""

MOST_TEST_REQUESTS = 1_000_000_000
"""Largest number of requests in the test whether a plan holds: about forty seconds of one core for igniter-12."""

NOT_JUDGED = "not judged"
"""First words of the reason why a plan has no verdict: a time of it was not measured."""

UNCHECKED = "not checked"
"""First words of the reason why a plan is not tested, or why the test has no answer."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Conditions of a run in addition to its limits.

    Attributes
    ----------
    headroom
        Factor on every predicted latency while planning.
    truth
        True performance model of the GPUs, for judging and simulating the plan; ``measured:FOLDER`` for measured
        latencies, ``None`` for the instance's model.
    error
        Largest relative error of the GPUs' figures in the instance; the errors are drawn with the seed of the run.
    arrivals
        Arrivals of the simulation; ``None`` for no simulation.
    seconds
        Simulated time that is measured.
    check_holds
        Whether to test by ``bench.holding`` if each plan holds under the arrivals.
    margin
        Level of the margins on times beside others while planning, a fraction; 0 for none.
    """

    headroom: float = 1.0
    truth: str | None = None
    error: float = 0.0
    arrivals: Arrivals | None = None
    seconds: float = 30.0
    check_holds: bool = False
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.check_holds and self.arrivals is None:
            raise InputError(
                FieldName("check_holds"), "tests plans under the simulated arrivals, but the simulation is off"
            )
        if not 0.0 < self.headroom < math.inf:
            raise InputError(FieldName("headroom"), f"{self.headroom:g}; expected a finite factor greater than 0")
        if self.margin:
            check_level(self.margin)

    @property
    def as_planned(self) -> bool:
        """Whether planning and judging both use the unchanged instance."""
        return self.headroom == 1.0 and not self.margin and self.truth is None and self.error == 0.0

    @property
    def identity(self) -> dict[str, Any]:
        """All conditions that can affect a row, as JSON values."""
        arrivals = None if self.arrivals is None else self.arrivals.identity
        measured = _measured(self.truth)
        return {
            "headroom": self.headroom,
            "truth": self.truth,
            "error": self.error,
            "arrivals": arrivals,
            "seconds": None if arrivals is None else self.seconds,
            # Absent by default: the keys of earlier rows stay valid.
            **({"check_holds": True} if self.check_holds else {}),
            **({"margin": self.margin} if self.margin else {}),
            **({} if measured is None else {"measurements": measured.content_hash}),
        }

    @property
    def options(self) -> dict[str, object]:
        """Options of ``bench run`` for ``bench.command_text``; options at their default are ``None`` or ``False``."""
        label = None if self.arrivals is None else self.arrivals.label
        return {
            "simulate": "off" if label is None else None,
            "arrivals": None if label == "poisson" else label,
            "headroom": None if self.headroom == 1.0 else self.headroom,
            "margin": self.margin or None,
            "truth": self.truth,
            "error": self.error or None,
            "check_holds": self.check_holds,
        }

    @property
    def reality(self) -> str | None:
        """Difference between true and planned performance in words, or ``None`` if both are equal."""
        error_text = f"figures off by up to {100.0 * self.error:g} %" if self.error else ""
        return ", ".join(filter(None, (self.truth, error_text))) or None

    def planner_instance(self, instance: Instance) -> Instance:
        """Return the instance that the scheduler gets.

        Raises
        ------
        InputError
            If margins are asked for and a GPU type of the instance has none.
        """
        if self.margin:
            instance = planned_with_margins(instance, self.margin)
        if self.headroom == 1.0:
            return instance
        return replace(instance, latency_buffer=instance.latency_buffer * self.headroom)

    def true_performance(self, instance: Instance, seed: int) -> "tuple[Instance, MeasuredTruth | None]":
        """Return the instance and the measured times by which the judge judges a plan; see ``true_performance``."""
        return true_performance(instance, self.truth, self.error, seed)

    def why_not_simulated(self, plan: Plan, instance: Instance) -> str | None:
        """Return a message if too many requests would arrive for a simulation of the plan; otherwise ``None``."""
        from bench.plan_simulation import Settings, expected_requests, no_simulation

        if self.arrivals is None or no_simulation(plan, instance) is not None:
            return None
        requests = expected_requests(plan, instance, Settings(self.arrivals, self.seconds))
        if requests <= MOST_REQUESTS:
            return None
        return f"not simulated: {requests:,.0f} requests would arrive, at most {MOST_REQUESTS:,} are simulated"

    def simulation_json(self, plan: Plan, instance: Instance, seed: int) -> dict[str, Any] | None:
        """Simulate a plan with the true performance; return JSON, or ``None`` without a simulation."""
        # These modules load compiled code, which is not needed to describe a trial.
        from bench.plan_simulation import Settings, no_simulation, simulate

        if self.arrivals is None or no_simulation(plan, instance) is not None:
            return None
        settings = Settings(self.arrivals, self.seconds, seed=seed)
        plan, instance, truth = for_simulation(plan, instance, self.truth, self.error, seed)
        result = simulate(plan, instance, settings, truth)
        return {"arrivals": self.arrivals.label, **result.to_json(histograms=True)}

    def why_not_tested(self, plan: Plan, instance: Instance) -> str | None:
        """Return why the test of a plan is impossible; ``None`` if the test is possible or off."""
        from bench.holding.check import expected_requests_of_test
        from bench.plan_simulation import no_simulation

        if not self.check_holds or self.arrivals is None:
            return None
        reason = no_simulation(plan, instance)
        if reason is None and instance.applications:
            reason = "the instance has applications; only workloads with an SLO of their own are tested"
        if (
            reason is None
            and (requests := expected_requests_of_test(plan, instance, self.arrivals)) > MOST_TEST_REQUESTS
        ):
            reason = f"{requests:,.0f} requests would arrive, at most {MOST_TEST_REQUESTS:,} are simulated"
        return None if reason is None else f"{UNCHECKED}: {reason}"

    def holding_of(self, plan: Plan, instance: Instance, seed: int) -> "Holding | None":
        """Test whether a plan holds with the true performance; return ``None`` if the test is off.

        ``why_not_tested`` must return ``None`` for the plan.
        """
        from bench.holding.check import holding
        from bench.plan_simulation import finished

        if not self.check_holds or self.arrivals is None:
            return None
        plan, instance, truth = for_simulation(plan, instance, self.truth, self.error, seed)
        return finished(holding(plan, instance, self.arrivals, truth))


def true_performance(
    instance: Instance, truth: str | None, error: float = 0.0, seed: int = 0
) -> "tuple[Instance, MeasuredTruth | None]":
    """Return what the judge needs beside a plan: the instance of ``misspecified``, or the given one and measured times.

    Raises
    ------
    InputError
        If the true performance is unknown or does not apply to the instance.
    """
    if truth is None and error == 0.0:
        return instance, None
    measured = _measured(truth)
    if measured is None:
        return misspecified(instance, truth, error, seed), None
    if error != 0.0:
        raise InputError(FieldName("error"), "is given; measured latencies have no error")
    measured.check(instance)
    return instance, measured


def for_simulation(
    plan: Plan, instance: Instance, truth: str | None, error: float, seed: int
) -> tuple[Plan, Instance, Instance]:
    """Return plan and instance for a simulation, and the instance with the true performance.

    A measured truth gives every GPU of the plan a type of its own (``MeasuredTruth.simulated``).

    Raises
    ------
    InputError
        As for ``true_performance``, or if the truth is measured and a time of the plan was not (``UnmeasuredError``).
    """
    true_instance, measured = true_performance(instance, truth, error, seed)
    return (plan, instance, true_instance) if measured is None else measured.simulated(plan, instance)


SIMULATED = Trial(arrivals=Arrivals())
"""Default conditions of a run."""


def _measured(truth: str | None) -> "MeasuredTruth | None":
    """Return the truth that ``measured:FOLDER`` names; ``None`` for another name or none."""
    if truth is None:
        return None
    from bench.judging.measured import MeasuredTruth  # loads pandas

    return MeasuredTruth.named(truth)
