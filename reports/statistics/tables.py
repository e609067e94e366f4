"""Tables and sentences of statistics: for a terminal, LaTeX, Markdown and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.formatting import objective_of, percent, seconds, with_percent_sign, worth
from bench.ledger.entry_rows import is_of_library, source_in_words
from reports.statistics.gaps import achieved
from reports.statistics.inference import ALPHA
from reports.statistics.summary import FACTORS, Interval, Loss, Summary

_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "≥": r"$\geq$",
    }
)


@dataclass(frozen=True, slots=True)
class StatsTable:
    """A table: its caption, the heads of its columns, and its lines. The first column has text, the others numbers.

    ``label`` is the table's label in LaTeX without ``tab:``. A ``long`` table may break across pages.
    """

    caption: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    label: str
    long: bool = False


def stats_tables(summary: Summary) -> list[StatsTable]:
    """Return up to three tables: gaps and ranks; profiles, integrals and times; the duels, if there are any."""
    count = f"{summary.instances} instance{'s' * (summary.instances != 1)}"
    quality = StatsTable(
        f"Gap to the best known value, {count}",
        ["scheduler", "solved", "mean gap", "95 % interval", "± seeds", "gap to bound", "rank"],
        [
            [
                standing.name,
                f"{standing.solved}/{standing.runs}",
                percent(standing.gap),
                interval(standing.interval),
                "-" if standing.seed_half_width is None else f"± {with_percent_sign(100.0 * standing.seed_half_width)}",
                percent(standing.bound_gap),
                "-" if standing.rank is None else f"{standing.rank:.2f}",
            ]
            for standing in summary.standings
        ],
        "gaps",
    )
    profile = StatsTable(
        f"Part of the instances within a factor of the best; primal and dual integral over {summary.horizon_s:g} s",
        ["scheduler", *(f"{factor:g}x" for factor in FACTORS), "primal", "95 % interval", "dual", "decision"],
        [
            [
                standing.name,
                *(f"{100.0 * fraction:.0f} %" for fraction in standing.profile.values()),
                seconds(standing.integral_s),
                "-"
                if standing.integral_interval is None
                else " to ".join(f"{limit:.2g}" for limit in standing.integral_interval),
                seconds(standing.dual_integral_s),
                seconds(standing.decision_s),
            ]
            for standing in summary.standings
        ],
        "profile",
    )
    if not summary.duels:
        return [quality, profile]
    duels = StatsTable(
        f"{summary.reference} against each other scheduler, by gap",
        ["against", "wins", "ties", "losses", "lead", "95 % interval", "p", "p (Holm)"],
        [
            [
                duel.name,
                str(duel.wins),
                str(duel.ties),
                str(duel.losses),
                percent(duel.difference),
                interval(duel.interval),
                f"{duel.p:.2g}",
                f"{duel.p_holm:.2g}{' *' * (duel.p_holm <= ALPHA)}",
            ]
            for duel in summary.duels
        ],
        "duels",
    )
    return [quality, profile, duels]


def interval(ends: Interval | None) -> str:
    """Return the ends of an interval of fractions, in percent."""
    return "-" if ends is None else f"{100.0 * ends[0]:.1f} to {100.0 * ends[1]:.1f}"


def sentences(summary: Summary) -> list[str]:
    """Return notes below the tables: results of the tests, and restrictions of the numbers."""
    lines = []
    if summary.duels:
        lines.append("lead: the other's mean gap minus the reference's; *: significant at 5 % after Holm's correction")
    if summary.ranking is not None:
        ranking = summary.ranking
        groups = "; ".join(", ".join(summary.order[entrant] for entrant in group) for group in ranking.groups)
        lines.append(
            f"Friedman's test that all are equal: p = {ranking.p:.2g}; critical difference of ranks (Nemenyi, 5 %): "
            f"{ranking.critical_difference:.2f}; {f'not separated: {groups}' if groups else 'all are separated'}"
        )
    if 0 < summary.bounded < summary.instances:
        lines.append(f"gap to bound: over the {summary.bounded} instances on which every plan has a certified bound")
    if summary.left_out:
        lines.append(f"not run on all of these instances: {', '.join(summary.left_out)}")
    if summary.undecided:
        lines.append(
            f"does not discriminate, since random reaches the best known value: {', '.join(summary.undecided)}"
        )
    return lines


def loss_lines(summary: Summary, worst: Sequence[tuple[Loss, Sequence[str]]]) -> list[str]:
    """Return lines with the number of losses of the reference, and with its ``worst`` losses.

    Each loss comes with the differences between the plan of the reference and the best known plan.
    """
    if not summary.losses:
        return [f"{summary.reference} has the best known value on every instance"]
    lines = [f"where {summary.reference} loses ({len(summary.losses)} of {summary.instances} instances):"]
    for loss, difference_lines in worst:
        reference_value, best_value = (
            worth(achieved(row), objective_of(row)) for row in (loss.worst_run, loss.best_run)
        )
        if is_of_library(loss.best_run.key):
            best_scheduler = source_in_words(loss.best_run)
        elif loss.best_run.scheduler != loss.worst_run.scheduler:
            best_scheduler = loss.best_run.scheduler
        else:
            best_scheduler = f"its seed {loss.best_run.seed}"
        lines.append(
            f"- {loss.instance}: gap {percent(loss.gap)}; {reference_value} instead of {best_value} by {best_scheduler}"
        )
        lines += [f"  - {difference_line}" for difference_line in difference_lines]
    return lines


def latex(tables: Sequence[StatsTable], notes: Sequence[str]) -> str:
    """Return LaTeX tables with labels; comments name the packages that they need, and have the notes."""
    packages = ["booktabs", *["longtable"] * any(table.long for table in tables)]
    lines = [*(rf"% \usepackage{{{package}}}" for package in packages), ""]
    for table in tables:
        lines += _latex_table(table)
    return "\n".join([*lines, *(f"% {line}" for line in notes), ""])


def _latex_table(table: StatsTable) -> list[str]:
    columns = f"{{l{'r' * (len(table.heads) - 1)}}}"
    caption = rf"\caption{{{table.caption.translate(_LATEX)}}}\label{{tab:{table.label}}}"
    head, *body = [
        " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\" for cells in [table.heads, *table.lines]
    ]
    if table.long:
        top = [rf"\begin{{longtable}}{columns}", rf"{caption} \\", r"\toprule", head, r"\midrule", r"\endhead"]
        return [*top, *body, r"\bottomrule", r"\end{longtable}", ""]
    top = [r"\begin{table}", r"\centering", caption, rf"\begin{{tabular}}{columns}", r"\toprule", head, r"\midrule"]
    return [*top, *body, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]


def markdown(tables: Sequence[StatsTable], notes: Sequence[str]) -> str:
    """Return Markdown tables and the notes as a list."""
    lines = []
    for table in tables:
        alignment = ["---", *["---:"] * (len(table.heads) - 1)]
        cells = [[cell.replace("|", r"\|") for cell in line] for line in (table.heads, alignment, *table.lines)]
        lines += [f"**{table.caption}**", "", *(f"| {' | '.join(line)} |" for line in cells), ""]
    return "\n".join([*lines, *(line if line.lstrip().startswith("-") else f"- {line}" for line in notes), ""])


def stats_json(summary: Summary, worst: Sequence[tuple[Loss, Sequence[str]]]) -> Mapping[str, object]:
    """Return all numbers as JSON values."""
    ranking = summary.ranking
    return {
        "instances": summary.instances,
        "reference": summary.reference,
        "standings": [asdict(standing) for standing in summary.standings],
        "duels": [asdict(duel) for duel in summary.duels],
        "bounded_instances": summary.bounded,
        "horizon_s": summary.horizon_s,
        "friedman_p": None if ranking is None else ranking.p,
        "critical_difference": None if ranking is None else ranking.critical_difference,
        "not_separated": []
        if ranking is None
        else [[summary.order[entrant] for entrant in group] for group in ranking.groups],
        "losses": [
            {"instance": loss.instance, "gap": loss.gap, "key": loss.worst_run.key, "best_key": loss.best_run.key}
            | {"difference": next((differences for worst_loss, differences in worst if worst_loss is loss), None)}
            for loss in summary.losses
        ],
        "by_instance": [asdict(each) for each in summary.by_instance],
        "left_out": list(summary.left_out),
        "does_not_discriminate": list(summary.undecided),
    }
