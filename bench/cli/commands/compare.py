"""``bench compare``: comparison of two ledgers, or of two schedulers in one ledger, by pairs of runs."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from bench.cli.options import DEFAULT_LEDGER, FormatOption, LedgerOption
from bench.cli.terminal import print_json, say
from bench.cli.views.run_tables import refuted_claims, spread
from bench.cli.views.tables import Fitted, show
from bench.formatting import objective_of, worth
from bench.ledger.gap import Gap, ledger_gaps
from bench.ledger.labels import labels
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import InputError
from instances.errors import unknown_name
from instances.grouping import grouped
from reports.comparison import Comparison, Measure, Pair, PairVerdict, compare_pairs, pair_runs
from reports.statistics.gaps import achieved

EXAMPLES = (
    "bench compare before.sqlite after.sqlite                  # the same schedulers, two versions",
    "bench compare igniter ffd+ --ledger results/demo.sqlite   # two schedulers, the same ledger",
    "bench compare before.sqlite after.sqlite --strict --fail-on feasible,value,decision",
)

_FEASIBLE = "feasible"

_MEANING = (
    "better, worse: number of instances on which B is better or worse; percentages refer to the worse side's value or"
    " time, percentage points to the gap to the bound; a run without a feasible plan is worse by 100 %"
)


def compare(
    a: Annotated[
        str, typer.Argument(metavar="A", help="Reference: a ledger, or a scheduler such as local-search[rounds=10].")
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Ledger or scheduler to compare with the reference.")],
    ledger_file: LedgerOption = DEFAULT_LEDGER,
    fail_on: Annotated[
        str,
        typer.Option(
            metavar="WHAT[,...]", help="Measures that count as regressions: feasible, value, gap, decision; or nothing."
        ),
    ] = "feasible,value,gap",
    strict: Annotated[
        bool, typer.Option("--strict", help="Count a regression on one instance even if it is not significant.")
    ] = False,
    alpha: Annotated[float, typer.Option(metavar="P", min=0.0, max=1.0, help="Significance level.")] = 0.05,
    each_seed: Annotated[bool, typer.Option("--each-seed", help="Show a line per seed instead of the spread.")] = False,
    form: FormatOption = "table",
) -> None:
    """Compare B with A: two ledgers if both are files, otherwise two schedulers in one ledger.

    Runs are paired by instance and seed; between ledgers also by scheduler and parameters. Value, gap to the best
    certified bound in the ledger, and decision time are compared for each pair. Over all instances they are compared
    by Wilcoxon's signed-rank test with Holm's correction. A run without a feasible plan counts as 100 % worse than a
    run with one. At 5 %, nothing can be significant on fewer than six instances that differ.

    Exit code 1 means that B is significantly worse in a measure that --fail-on names; with --strict, that it is worse
    on one instance. For the measure "feasible" it means that B has no feasible plan where A has one. The default of
    --fail-on omits decision times, which are comparable only on one idle machine. They count as equal if they differ by
    less than a tenth or by less than 10 ms.
    """
    measures = _regression_measures(fail_on)
    same_ledger = not _is_ledger(a)
    if _is_ledger(a) != _is_ledger(b):
        raise InputError(f"{a}, {b}", "one is a ledger, one a scheduler; expected two ledgers or two schedulers")
    (rows_a, gaps_a), (rows_b, gaps_b) = _rows_and_gaps(a, b, same_ledger, ledger_file)
    pairs = pair_runs(rows_a, rows_b, gaps_a, gaps_b, same_ledger)
    if not pairs:
        raise InputError(f"{a}, {b}", "nothing to compare; expected runs with the same instance and seed on both sides")
    comparisons = compare_pairs(pairs, same_ledger, alpha)
    regressions = _regressions(pairs, comparisons, measures, strict)
    if form == "json":
        report = {
            "a": a,
            "b": b,
            "pairs": [_pair_json(pair) for pair in pairs],
            "tests": [asdict(comparison) for comparison in comparisons],
        }
        print_json(report | {"regressions": regressions})
    else:
        objectives = {pair.a.objective for pair in pairs}
        show(
            _pair_table(pairs, same_ledger, each_seed), "", _test_table(comparisons, same_ledger, objectives), _MEANING
        )
    for side, rows, gaps in ((a, rows_a, gaps_a), (b, rows_b, gaps_b)):
        for line in refuted_claims(rows, gaps):
            say(line)
        if unpaired := len(rows) - len(pairs):
            runs = "1 run is" if unpaired == 1 else f"{unpaired} runs are"
            say(f"{side}: {runs} left out, repeated or without a counterpart")
    for regression in regressions:
        say(f"regression: {regression}")
    if regressions:
        raise typer.Exit(1)


def _regression_measures(fail_on: str) -> list[str]:
    names = [_FEASIBLE, *Measure]
    parts = [part.strip() for part in fail_on.split(",") if part.strip() not in ("", "nothing")]
    for part in parts:
        if part not in names:
            raise unknown_name("--fail-on", "measure", part, [*names, "nothing"])
    return parts


def _is_ledger(text: str) -> bool:
    """Return whether ``text`` names a ledger file rather than a scheduler."""
    return os.sep in text or text.endswith(".sqlite") or os.path.isfile(text)  # noqa: PTH113 - False for impossible file names


def _rows_and_gaps(a: str, b: str, same_ledger: bool, ledger_file: Path) -> list[tuple[list[Row], dict[str, Gap]]]:
    """Return the rows of both sides, and their gaps to the bounds in their own ledger."""
    sides = []
    for name in (a, b):
        with Ledger(ledger_file if same_ledger else Path(name)) as ledger:
            rows = ledger.rows(without=("simulation",))
            if same_ledger:
                rows = _rows_of_scheduler(name, rows, ledger_file)
            sides.append((rows, ledger_gaps(rows, ledger)))
    return sides


def _rows_of_scheduler(name: str, rows: Sequence[Row], ledger_file: Path) -> list[Row]:
    """Return the runs of a scheduler, or of one variant if ``name`` includes parameters."""
    label_of = labels(rows)
    chosen = [row for row in rows if name == label_of[row.key]] or [row for row in rows if name == row.scheduler]
    if not chosen:
        raise unknown_name(str(ledger_file), "scheduler", name, list(dict.fromkeys(label_of.values())))
    variants = sorted({label_of[row.key] for row in chosen})
    if len(variants) > 1:
        raise InputError(name, f"ran with several parameters; name one of {', '.join(map(quote, variants))}")
    return chosen


def _regressions(
    pairs: Sequence[Pair], comparisons: Sequence[Comparison], measures: Sequence[str], strict: bool
) -> list[str]:
    lines = []
    if _FEASIBLE in measures:
        lines = [
            f"{pair.name} on {pair.b.instance}, seed {pair.b.seed}: B has no feasible plan ({pair.b.termination})"
            for pair in pairs
            if pair.lost
        ]
    for test in comparisons:
        if test.measure in measures and (test.verdict is PairVerdict.WORSE or (strict and test.worse)):
            prefix = f"{test.scheduler}: " if test.scheduler else ""
            part = f"{test.worse} of {test.better + test.equal + test.worse} instances"
            lines.append(f"{prefix}{test.measure} is worse on {part} (p = {test.p_holm:.2g})")
    return lines


def _pair_json(pair: Pair) -> dict[str, object]:
    a, b = pair.a, pair.b
    sides = {
        "key": (a.key, b.key),
        "scheduler": (a.scheduler, b.scheduler),
        "feasible": (a.feasible, b.feasible),
        "value": (a.value, b.value),
        "gap": (pair.gap_a, pair.gap_b),
        "decision_s": (a.decision_s, b.decision_s),
    }
    return {
        "instance": a.instance,
        "seed": a.seed,
        **{f"{name}_{side}": value for name, values in sides.items() for side, value in zip("ab", values, strict=True)},
        "verdicts": {measure: pair.verdict(measure) for measure in Measure},
    }


def _pair_table(pairs: Sequence[Pair], same_ledger: bool, each_seed: bool) -> Fitted:
    """Return a table with a line per instance, or per run if ``each_seed``.

    The marks before names of columns, ``>`` and ``=``, are those of ``tables.table``.
    """
    groups = grouped(((pair.a.instance_hash, pair.name, *((pair.a.seed,) * each_seed)), pair) for pair in pairs)
    with_seeds = each_seed or any(len(group) > 1 for group in groups.values())
    columns = [
        "instance",
        *([] if same_ledger else ["scheduler"]),
        *([">seed" if each_seed else ">seeds"] * with_seeds),
    ]
    cells = []
    for group in groups.values():
        first = group[0]
        in_unit = partial(worth, objective=objective_of(first.a))
        changes = (
            _shared(_in_words(pair.change(measure), measure, first.a.objective) for pair in group)
            for measure in Measure
        )
        cells.append(
            [
                first.a.instance,
                *([] if same_ledger else [first.name]),
                *([first.a.seed if each_seed else len(group)] * with_seeds),
                spread([achieved(pair.a) for pair in group], in_unit),
                spread([achieved(pair.b) for pair in group], in_unit),
                *changes,
            ]
        )
    columns += [">value A", ">value B", "=by value", "=by gap", "=by time"]
    return Fitted(columns, cells, None if same_ledger else [key[0] for key in groups], ("by gap", "by time"))


def _shared(changes: Iterable[str]) -> str:
    """Return the text that all seeds share, or the number of seeds for which each side is better.

    A text begins with the better side, or with ``=`` for a tie or ``-`` for an unknown change.
    """
    texts = list(changes)
    sides = Counter(text[0] for text in texts)
    return texts[0] if len(set(texts)) == 1 else ", ".join(f"{side} {sides[side]}" for side in "AB=-" if sides[side])


def _test_table(comparisons: Sequence[Comparison], same_ledger: bool, objectives: Collection[str]) -> Fitted:
    columns = [*([] if same_ledger else ["scheduler"]), "measure", ">better", ">equal", ">worse", "on average"]
    objective = next(iter(objectives)) if len(objectives) == 1 else ""
    cells = [
        [
            *([] if same_ledger else [test.scheduler]),
            test.measure,
            test.better,
            test.equal,
            test.worse,
            _with_interval(test, objective),
            f"{test.p:.2g}",
            f"{test.p_holm:.2g}",
            f"significantly {test.verdict}" if test.verdict else "not significant",
        ]
        for test in comparisons
    ]
    groups = None if same_ledger else [test.scheduler for test in comparisons]
    return Fitted([*columns, ">p", ">p (Holm)", "B is"], cells, groups, ("p", "equal"))


def _with_interval(test: Comparison, objective: str) -> str:
    """Return which side is better by how much on average, and the 95 % interval."""
    change = _in_words(test.mean_change, test.measure, objective)
    if test.interval is None or test.interval[0] == test.interval[1]:
        return change
    ends = sorted(test.interval, key=abs)
    low, high = (_in_words(end, test.measure, objective) for end in ends)
    if low[0] == high[0]:  # both ends favour the same side, which stands in ``change`` already
        return f"{change} ({low.split()[1]} to {high.split()[1]})"
    return f"{change} ({low} to {high})".replace(" to =", " to equal").replace("(=", "(equal")


def _in_words(change: float | None, measure: Measure, objective: str) -> str:
    """Return which side is better and by how much: ``B 18 % cheaper``. The percentage is of the worse value."""
    if change is None:
        return "-"
    size = 100.0 * abs(change)
    if size < 0.05:
        return "="
    side = "A" if change > 0.0 else "B"
    amount = f"{size:.0f}" if size >= 9.95 else f"{size:.1f}"
    if measure is Measure.GAP:
        return f"{side} {amount} points closer"
    if measure is Measure.DECISION:
        return f"{side} {min(size, 99.9):.3g} % less time"
    return f"{side} {amount} % {'cheaper' if objective == 'cost' else 'better'}"
