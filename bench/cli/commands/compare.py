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
from bench.formatting import labels, objective_of, worth
from bench.ledger.gap import Gap, ledger_gaps
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
    " time, points to the gap to the bound; a run without a feasible plan is worse by 100 %"
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

    Exit code 1 means that B has no feasible plan where A has one, or that B is significantly worse in a measure that
    --fail-on names. The default of --fail-on omits decision times, which are comparable only on one idle machine. They
    count as equal if they differ by less than a tenth or by less than 10 ms.
    """
    watched = _watched(fail_on)
    across = not _is_ledger(a)
    if across == _is_ledger(b):
        raise InputError(f"{a}, {b}", "one is a ledger, one a scheduler; expected two ledgers or two schedulers")
    (rows_a, gaps_a), (rows_b, gaps_b) = _sides(a, b, across, ledger_file)
    pairs = pair_runs(rows_a, rows_b, gaps_a, gaps_b, across)
    if not pairs:
        raise InputError(f"{a}, {b}", "nothing to compare; expected runs with the same instance and seed on both sides")
    found = compare_pairs(pairs, across, alpha)
    regressions = _regressions(pairs, found, watched, strict)
    if form == "json":
        report = {"a": a, "b": b, "pairs": [_pair_json(pair) for pair in pairs], "tests": [asdict(t) for t in found]}
        print_json(report | {"regressions": regressions})
    else:
        objectives = {pair.a.objective for pair in pairs}
        show(_pair_table(pairs, across, each_seed), "", _test_table(found, across, objectives), _MEANING)
    for side, rows, gaps in ((a, rows_a, gaps_a), (b, rows_b, gaps_b)):
        for line in refuted_claims(rows, gaps):
            say(line)
        if alone := len(rows) - len(pairs):
            say(f"{side}: {alone} runs are left out because they are repeated or have no counterpart")
    for regression in regressions:
        say(f"regression: {regression}")
    if regressions:
        raise typer.Exit(1)


def _watched(fail_on: str) -> list[str]:
    known = [_FEASIBLE, *Measure]
    parts = [part.strip() for part in fail_on.split(",") if part.strip() not in ("", "nothing")]
    for part in parts:
        if part not in known:
            raise unknown_name("--fail-on", "measure", part, [*known, "nothing"])
    return parts


def _is_ledger(text: str) -> bool:
    """Return whether ``text`` names a ledger file rather than a scheduler."""
    return os.sep in text or text.endswith(".sqlite") or os.path.isfile(text)  # noqa: PTH113 - False for impossible file names


def _sides(a: str, b: str, across: bool, ledger_file: Path) -> list[tuple[list[Row], dict[str, Gap]]]:
    """Return the rows of both sides, and their gaps to the bounds in their own ledger."""
    found = []
    for side in (a, b):
        with Ledger(ledger_file if across else Path(side)) as ledger:
            rows = ledger.rows(without=("simulation",))
            if across:
                rows = _of_scheduler(side, rows, ledger_file)
            found.append((rows, ledger_gaps(rows, ledger)))
    return found


def _of_scheduler(name: str, rows: Sequence[Row], ledger_file: Path) -> list[Row]:
    """Return the runs of a scheduler, or of one variant if ``name`` includes parameters."""
    named = labels(rows)
    found = [row for row in rows if name == named[row.key]] or [row for row in rows if name == row.scheduler]
    if not found:
        raise unknown_name(str(ledger_file), "scheduler", name, list(dict.fromkeys(named.values())))
    variants = sorted({named[row.key] for row in found})
    if len(variants) > 1:
        raise InputError(name, f"ran with several parameters; name one of {', '.join(map(quote, variants))}")
    return found


def _regressions(pairs: Sequence[Pair], found: Sequence[Comparison], watched: Sequence[str], strict: bool) -> list[str]:
    lines = []
    if _FEASIBLE in watched:
        lines = [
            f"{pair.name} on {pair.b.instance}, seed {pair.b.seed}: B has no feasible plan ({pair.b.termination})"
            for pair in pairs
            if pair.lost
        ]
    for test in found:
        if test.measure in watched and (test.verdict is PairVerdict.WORSE or (strict and test.worse)):
            who = f"{test.scheduler}: " if test.scheduler else ""
            part = f"{test.worse} of {test.better + test.equal + test.worse} instances"
            lines.append(f"{who}{test.measure} is worse on {part} (p = {test.p_holm:.2g})")
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
        **{f"{name}_{side}": each for name, both in sides.items() for side, each in zip("ab", both, strict=True)},
        "verdicts": {measure: pair.verdict(measure) for measure in Measure},
    }


def _pair_table(pairs: Sequence[Pair], across: bool, each_seed: bool) -> Fitted:
    """Return a table with a line per instance, or per run if ``each_seed``."""
    groups = grouped(((pair.a.instance_hash, pair.name, *((pair.a.seed,) * each_seed)), pair) for pair in pairs)
    several = each_seed or any(len(group) > 1 for group in groups.values())
    columns = ["instance", *([] if across else ["scheduler"]), *([">seed" if each_seed else ">seeds"] * several)]
    cells = []
    for group in groups.values():
        first = group[0]
        in_unit = partial(worth, objective=objective_of(first.a))
        words = (
            _shared(_in_words(pair.change(measure), measure, first.a.objective) for pair in group)
            for measure in Measure
        )
        cells.append(
            [
                first.a.instance,
                *([] if across else [first.name]),
                *([first.a.seed if each_seed else len(group)] * several),
                spread([achieved(pair.a) for pair in group], in_unit),
                spread([achieved(pair.b) for pair in group], in_unit),
                *words,
            ]
        )
    columns += [">value A", ">value B", "=by value", "=by gap", "=by time"]
    return Fitted(columns, cells, None if across else [key[0] for key in groups], ("by gap", "by time"))


def _shared(words: Iterable[str]) -> str:
    """Return the text of all seeds if it is the same, otherwise the number of seeds for which each side is better."""
    texts = list(words)
    sides = Counter(text[0] for text in texts)
    return texts[0] if len(set(texts)) == 1 else ", ".join(f"{side} {sides[side]}" for side in "AB=-" if sides[side])


def _test_table(found: Sequence[Comparison], across: bool, objectives: Collection[str]) -> Fitted:
    columns = [*([] if across else ["scheduler"]), "measure", ">better", ">equal", ">worse", "on average"]
    objective = next(iter(objectives)) if len(objectives) == 1 else ""
    cells = [
        [
            *([] if across else [test.scheduler]),
            test.measure,
            test.better,
            test.equal,
            test.worse,
            _with_interval(test, objective),
            f"{test.p:.2g}",
            f"{test.p_holm:.2g}",
            f"significantly {test.verdict}" if test.verdict else "not significant",
        ]
        for test in found
    ]
    groups = None if across else [test.scheduler for test in found]
    return Fitted([*columns, ">p", ">p (Holm)", "B is"], cells, groups, ("p", "equal"))


def _with_interval(test: Comparison, objective: str) -> str:
    """Return which side is better by how much on average, and the 95 % interval."""
    change = _in_words(test.mean_change, test.measure, objective)
    if test.interval is None or test.interval[0] == test.interval[1]:
        return change
    ends = sorted(test.interval, key=abs)
    low, high = (_in_words(end, test.measure, objective) for end in ends)
    if low[0] == high[0]:
        return f"{change} ({low.split()[1]} to {high.split()[1]})"
    return f"{change} ({low} to {high})".replace(" to =", " to equal").replace("(=", "(equal")


def _in_words(change: float | None, measure: Measure, objective: str) -> str:
    """Return which side is better and by how much: ``B 18 % cheaper``; the percentage is of the worse side's value."""
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
