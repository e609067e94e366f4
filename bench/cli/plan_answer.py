"""Answer of ``bench plan`` for one instance: solves, the plan file, and the lines about the plan."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench.cli.terminal import say
from bench.cli.views.run import plan_picture
from bench.cli.views.tables import show
from bench.fleet.answer import (
    cost_line,
    dropping_line,
    extrapolation_lines,
    holding_line,
    margin_lines,
    memory_line,
    moves_line,
    proof_line,
    routing_line,
    saved_by_measuring,
    slack_line,
    spare_line,
    straw_line,
    without_dropping_line,
)
from bench.fleet.budget import (
    Preferences,
    budget_proof_line,
    can_turn_away,
    one_more_gpu,
    one_more_line,
    served_line,
    turned_away_line,
    within_budget,
)
from bench.fleet.last_straw import last_straw
from bench.fleet.replanning import replan
from bench.fleet.solving import Solve, best_plan, best_scheduler, practice, solved
from bench.fleet.surviving import surviving
from bench.formatting import gpu_count
from bench.holding.check import holding
from bench.holding.verdict import Holding
from bench.holding.windows import SECONDS
from bench.judging.judge import judge
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.plan_simulation import finished
from bench.runner.listener import Listener
from bench.simulation.arrivals import parse_arrivals
from bench.task import Task
from bench.then import Then
from instances import InputError, Instance, Partition, Plan
from instances.files import plan_to_json, write_json
from instances.model_error.choice import ROWS, Pair
from reports.page.site import write_site

MOST_LISTED = 12
"""Largest number of pairs to measure next that are printed for a GPU type."""


class SolveProgress(Listener):
    """Listener that prints a message for every finished solve."""

    def finished(self, task: Task, row: Row) -> None:
        """Print the GPUs and the price of the plan."""
        result = "no plan"
        if row.cost_per_hour is not None:
            result = f"{gpu_count(row.gpus_used or 0)}, ${row.cost_per_hour:,.2f}/h"
        say(f"{task.scheduler}: {result}")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Instance to plan for, and the options of the answer.

    Attributes
    ----------
    practice_instance
        The same instance with its own shares, not those of a deployment target; today's practice is planned for it.
    plan_in_use
        Plan of which at most ``max_moves`` services change their GPU; ``None`` for a new plan.
    survives
        Whether the plan gets a spare GPU, which can replace any single GPU after a failure.
    variants
        The same instance with a smaller margin or a smaller guess of the interference, by the name of the change.
    guessed
        Whether the interference of ``instance`` is a guess, not measured.
    next_pairs
        Pairs to measure next, by GPU type, the most informative first.
    """

    instance: Instance
    practice_instance: Instance
    preferences: Preferences
    time_limit_s: float
    plan_in_use: Plan | None
    max_moves: int
    survives: bool
    output: Path | None
    page: Path | None
    then: Then
    variants: Mapping[str, Instance] = field(default_factory=dict)
    guessed: bool = False
    next_pairs: Mapping[str, Sequence[Pair]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SolvedRequest:
    """Results of the solves of a request.

    Attributes
    ----------
    best
        Row of the best scheduler for the instance; see ``bench.fleet.solving.best_scheduler``.
    practices
        Rows of today's practice, by scheduler.
    with_dropping
        Row of the best scheduler for servers that drop late requests; ``None`` on MIG instances, or if the servers of
        the instance drop them already.
    variants
        Rows of the best scheduler on ``PlanRequest.variants``, by the same names.
    plan
        Cheapest plan of the rows ``best`` and ``practices``, or ``None`` if none has a plan.
    """

    best: Row
    practices: Mapping[str, Row]
    with_dropping: Row | None
    variants: Mapping[str, Row]
    plan: Plan | None


def answer(request: PlanRequest) -> bool:
    """Solve, write the plan, and print the answer; return whether there is a plan that is known to hold."""
    instance, page = request.instance, request.page
    with nullcontext() if page is None else Ledger(page / "ledger.sqlite", create=True) as ledger:
        results = _solve(request, ledger)
        if results.plan is None:
            _answer_without_plan(request, results.best)
            return False
        best_per_hour = judge(results.plan, instance).cost_per_hour
        plan, changes = _with_few_moves_or_spare(results.plan, results.best, request)
        if request.output is not None:
            write_json(request.output, plan_to_json(plan, instance))
        test, verdict = _tested(plan, instance), judge(plan, instance)
        practices = {
            name: (row, None if row.plan is None else _tested(row.plan, request.practice_instance))
            for name, row in results.practices.items()
        }
        # A lower rate or a longer SLO of one service that saves a GPU
        straw = last_straw(instance, plan, request.time_limit_s / 3.0)
        lines = [
            cost_line(plan, verdict.cost_per_hour, practices),
            proof_line(results.best, instance, best_per_hour),
            holding_line(test),
            slack_line(verdict, results.best),
            straw_line(straw, instance, verdict.cost_per_hour),
        ]
        if results.with_dropping is not None and test.holds is not False:
            changes.append(dropping_line(results.with_dropping, best_per_hour))
        if test.dropping:
            changes.append(without_dropping_line(_tested_without_dropping(plan, instance)))
        changes += margin_lines(best_per_hour, results.variants, guessed=request.guessed)
        if request.guessed or saved_by_measuring(best_per_hour, results.variants) > 0.0:
            changes += _measure_next_lines(request.next_pairs, request.guessed)
        changes += extrapolation_lines(plan, instance)
        _show_answer(lines, [*changes, *_assumption_lines(plan, test, instance)], plan, instance)
        if request.output is not None:
            say(f"wrote {request.output}")
        if ledger is not None and page is not None:
            say(f"wrote {write_site(ledger, page / 'site')}")
    return test.holds is True


def _solve(request: PlanRequest, ledger: Ledger | None) -> _SolvedRequest:
    """Run all solves of a request; see ``_SolvedRequest``."""
    instance, limit_s = request.instance, request.time_limit_s / 2.0
    best, practices = best_scheduler(instance), practice(instance)
    solves = [Solve(instance, best, limit_s, request.then)]
    solves += [Solve(request.practice_instance, name, limit_s) for name in practices]
    solves_with_dropping = not instance.dropping and instance.partition is Partition.SHARES
    if solves_with_dropping:
        solves.append(Solve(replace(instance, dropping=True), best, limit_s))
    solves += [Solve(variant, best, limit_s) for variant in request.variants.values()]
    rows = iter(solved(solves, ledger, SolveProgress()))
    best_row = next(rows)
    practice_rows = [next(rows) for _ in practices]
    return _SolvedRequest(
        best_row,
        dict(zip(practices, practice_rows, strict=True)),
        next(rows) if solves_with_dropping else None,
        dict(zip(request.variants, rows, strict=True)),
        best_plan([best_row, *practice_rows], instance),
    )


def _answer_without_plan(request: PlanRequest, row: Row) -> None:
    """Print why there is no plan, and which requests are served if the GPUs do not suffice."""
    say(f"no plan was found: {row.reason or row.termination}")
    say(proof_line(row, request.instance, None))
    if can_turn_away(request.instance) and request.plan_in_use is None and not request.survives:
        _answer_within_budget(request.instance, request.preferences, request.time_limit_s, request.output)


def _with_few_moves_or_spare(plan: Plan, row: Row, request: PlanRequest) -> tuple[Plan, list[str]]:
    """Return the plan with few moves, a spare GPU or both, as the request says, and a line on the price of each.

    ``row`` is the row of the best scheduler, with the proven bound on the cost.
    """
    instance, limit_s = request.instance, request.time_limit_s / 2.0
    lines = []
    if request.plan_in_use is not None:
        best_per_hour = judge(plan, instance).cost_per_hour
        replanned = replan(instance, request.plan_in_use, request.max_moves, limit_s)
        plan = replanned.plan
        lines.append(moves_line(replanned, judge(plan, instance).cost_per_hour, best_per_hour))
    if request.survives:
        proven_per_hour = row.bound if row.bound_certified and row.bound else 0.0
        survivor = surviving(plan, instance, proven_per_hour, limit_s)
        if survivor is None:
            problem = "no single GPU on offer, as a spare, makes the plan survive every failure; offer one more GPU"
            raise InputError("--survive-gpus", problem)
        plan = survivor.plan
        lines.append(spare_line(survivor))
    return plan, lines


def _measure_next_lines(next_pairs: Mapping[str, Sequence[Pair]], guessed: bool) -> list[str]:
    """Return a line for each GPU type with the pairs to measure next and the command that measures all of them.

    ``guessed`` says whether the pairs replace a guess.
    """
    lines = []
    for gpu, pairs in next_pairs.items():
        listed = [f"{first} beside {second}" for first, second in pairs[:MOST_LISTED]]
        if len(pairs) > MOST_LISTED:
            listed.append(f"{len(pairs) - MOST_LISTED} more")
        purpose = f", {len(pairs)} pairs in place of the guess" if guessed else ""
        rows = f" --rows {len(pairs)}" if len(pairs) > ROWS else ""
        models = ",".join(dict.fromkeys(side.model for pair in pairs for side in pair))
        command = f"bench profile run --pairs auto{rows} --models {models}"
        lines.append(f"  measure next on {gpu}{purpose}: {'; '.join(listed)}; all: {command}")
    return lines


def _assumption_lines(plan: Plan, test: Holding, instance: Instance) -> list[str]:
    """Return the lines on random routing and on the memory of language models, where they apply."""
    lines = []
    if instance.random_routing:
        is_split = len(list(plan.slots())) > len(instance.workloads)
        test_in_turns = _tested(plan, replace(instance, random_routing=False)) if is_split else None
        lines.append(routing_line(plan, judge(plan, instance).cost_per_hour, test, test_in_turns))
    if instance.services:
        lines.append(memory_line(plan, instance))
    return lines


def _show_answer(lines: Sequence[str], more_lines: Sequence[str], plan: Plan, instance: Instance) -> None:
    """Print the five numbered lines of an answer, further lines, and the plan."""
    numbered = (f"{number} {line}" for number, line in enumerate(lines, 1))
    show(*numbered, *more_lines, "", plan_picture(plan, instance))


def _answer_within_budget(
    instance: Instance, preferences: Preferences, time_limit_s: float, output: Path | None
) -> None:
    """Print which requests are served on GPUs that do not suffice, and write the plan for the served rates."""
    budgeted = within_budget(instance, preferences, time_limit_s)
    if budgeted is None:
        say("nor was a plan found that serves a part of the requests; allow more time")
        return
    if output is not None:
        write_json(output, plan_to_json(budgeted.plan, budgeted.instance))
    one_more = one_more_gpu(instance, preferences, budgeted, time_limit_s)
    lines = [
        served_line(budgeted, instance),
        turned_away_line(budgeted, instance),
        one_more_line(one_more, budgeted, instance),
        budget_proof_line(budgeted),
        holding_line(_tested(budgeted.plan, budgeted.instance)),
    ]
    _show_answer(lines, [], budgeted.plan, budgeted.instance)
    if output is not None:
        say(f"wrote {output}: the plan for the served rates")


def _tested_without_dropping(plan: Plan, instance: Instance) -> Holding:
    """Return the test of a plan on servers that drop no requests, without longer simulations of unclear services."""
    return finished(holding(plan, instance, parse_arrivals(instance.arrivals), dropping=False, seconds=SECONDS))


def _tested(plan: Plan, instance: Instance) -> Holding:
    return finished(holding(plan, instance, parse_arrivals(instance.arrivals)))
