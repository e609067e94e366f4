"""``bench doctor`` on SCIP: whether its answer to instances with known optima is right, wrong or unfinished."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from bench.api import Bound, Outcome, Run, Status
from bench.doctor import Level, solvers
from bench.doctor.solvers import KNOWN_OPTIMA, KnownOptimum, nonlinear_answers
from instances import Instance

POWER28 = KNOWN_OPTIMA[0]


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (Outcome(Status.FEASIBLE, None, Bound(9.18, False)), "wrong, 9.18 instead of 6.12"),
        (Outcome(Status.INFEASIBLE), "wrong, no plan instead of 6.12"),
        (Outcome(Status.FEASIBLE, None, Bound(6.12, False)), "not finished in 20 s"),
        (Outcome(Status.FEASIBLE, None, Bound(3.06, False)), "not finished in 20 s"),
        (Outcome(Status.UNKNOWN), "not finished in 20 s"),
    ],
)
def test_an_outcome_that_contradicts_the_optimum_is_wrong(outcome: Outcome, answer: str) -> None:
    assert solvers._answer(FixedOutcome(outcome), POWER28) == answer  # type: ignore[arg-type]


@dataclass(frozen=True)
class FixedOutcome:
    outcome: Outcome

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return self.outcome


def test_a_bound_on_goodput_is_wrong_below_the_optimum() -> None:
    goodput = KNOWN_OPTIMA[2]
    low, high = (Outcome(Status.FEASIBLE, None, Bound(value, False)) for value in (1017.98, 1100.0))

    assert solvers._answer(FixedOutcome(low), goodput) == "wrong, 1017.98 instead of 1023.62"  # type: ignore[arg-type]
    assert solvers._answer(FixedOutcome(high), goodput) == "not finished in 20 s"  # type: ignore[arg-type]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Replace SCIP's answers to the model of ``minlp`` (``ours``) and to the paper's equations (``printed``)."""

    def pretend(ours: str, printed: str) -> None:
        def answer(scheduler: object, known: KnownOptimum) -> str:
            return printed if scheduler.as_printed else ours  # type: ignore[attr-defined]

        monkeypatch.setattr(solvers, "_answer", answer)

    return pretend


@pytest.mark.parametrize(
    ("ours", "level", "advice"),
    [
        ("right", Level.OK, ""),
        ("wrong, 9.18 instead of 6.12", Level.WARNING, "fresh environment"),
        ("not finished in 20 s", Level.WARNING, "try again"),
    ],
)
def test_only_wrong_answers_to_the_model_in_use_give_advice(
    ours: str, level: Level, advice: str, answers: Callable[[str, str], None]
) -> None:
    answers(ours, "wrong, 9.18 instead of 6.12")

    used, printed = nonlinear_answers()

    assert (used.level, printed.level, printed.advice) == (level, Level.OK, "")
    assert advice in used.advice
    assert used.found == "; ".join(f"{known.name}: {ours}" for known in KNOWN_OPTIMA)
    assert "power28: wrong, 9.18 instead of 6.12" in printed.found


def test_without_scip_there_are_no_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solvers, "distribution_version", lambda _: None)

    assert nonlinear_answers() == []
