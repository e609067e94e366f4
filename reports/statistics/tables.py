"""Tables and sentences of statistics: for a terminal, LaTeX, Markdown and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.formatting import objective_of, percent, seconds, with_percent_sign, worth
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
    """A table: its caption, the heads of its columns, and its lines. The first column is text, the others numbers."""

    caption: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]


def stats_tables(found: Summary) -> list[StatsTable]:
    """Return the table of gaps and ranks, that of profiles, integrals and times, and that of the duels, if any."""
    count = f"{found.instances} instance{'s' * (found.instances != 1)}"
    quality = StatsTable(
        f"Gap to the best known value, {count}",
        ["scheduler", "solved", "mean gap", "95 % interval", "± seeds", "gap to bound", "rank"],
        [
            [
                one.name,
                f"{one.solved}/{one.runs}",
                percent(one.gap),
                interval(one.interval),
                "-" if one.seed_half_width is None else f"± {with_percent_sign(100.0 * one.seed_half_width)}",
                percent(one.bound_gap),
                "-" if one.rank is None else f"{one.rank:.2f}",
            ]
            for one in found.standings
        ],
    )
    profile = StatsTable(
        f"Part of the instances within a factor of the best, and primal integral over {found.horizon_s:g} s",
        ["scheduler", *(f"{factor:g}x" for factor in FACTORS), "integral", "95 % interval", "decision"],
        [
            [
                one.name,
                *(f"{100.0 * part:.0f} %" for part in one.profile.values()),
                seconds(one.integral_s),
                "-" if one.integral_interval is None else " to ".join(f"{end:.2g}" for end in one.integral_interval),
                seconds(one.decision_s),
            ]
            for one in found.standings
        ],
    )
    if not found.duels:
        return [quality, profile]
    duels = StatsTable(
        f"{found.reference} against each other scheduler, by gap",
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
            for duel in found.duels
        ],
    )
    return [quality, profile, duels]


def interval(ends: Interval | None) -> str:
    """Return the ends of an interval of fractions, in percent."""
    return "-" if ends is None else f"{100.0 * ends[0]:.1f} to {100.0 * ends[1]:.1f}"


def sentences(found: Summary) -> list[str]:
    """Return the results of the tests, and the limits of the numbers."""
    lines = []
    if found.duels:
        lines.append("lead: the other's mean gap minus the reference's; *: significant at 5 % after Holm's correction")
    if found.ranking is not None:
        ranking = found.ranking
        groups = "; ".join(", ".join(found.order[at] for at in group) for group in ranking.groups)
        lines.append(
            f"Friedman's test that all are equal: p = {ranking.p:.2g}; critical difference of ranks (Nemenyi, 5 %): "
            f"{ranking.critical_difference:.2f}; {f'not separated: {groups}' if groups else 'all are separated'}"
        )
    if 0 < found.bounded < found.instances:
        lines.append(f"gap to bound: over the {found.bounded} instances on which every plan has a certified bound")
    if found.left_out:
        lines.append(f"not run on all of these instances: {', '.join(found.left_out)}")
    if found.undecided:
        lines.append(f"does not discriminate, since random reaches the best known value: {', '.join(found.undecided)}")
    return lines


def loss_lines(found: Summary, worst: Sequence[tuple[Loss, Sequence[str]]]) -> list[str]:
    """Return the number of losses of the reference, and the ``worst`` ones with the differences of its plans."""
    if not found.losses:
        return [f"{found.reference} has the best known value on every instance"]
    lines = [f"where {found.reference} loses ({len(found.losses)} of {found.instances} instances):"]
    for loss, difference in worst:
        own, best = (worth(achieved(row), objective_of(row)) for row in (loss.own, loss.best))
        by = loss.best.scheduler if loss.best.scheduler != loss.own.scheduler else f"its seed {loss.best.seed}"
        lines.append(f"- {loss.instance}: gap {percent(loss.gap)}; {own} instead of {best} by {by}")
        lines += [f"  - {one}" for one in difference]
    return lines


def latex(tables: Sequence[StatsTable], notes: Sequence[str]) -> str:
    """Return LaTeX tables (package booktabs), and the notes as comments."""
    lines = []
    for each in tables:
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{each.caption.translate(_LATEX)}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(each.heads) - 1)}}}", r"\toprule"]
        for position, cells in enumerate([each.heads, *each.lines]):
            lines.append(" & ".join(cell.translate(_LATEX) for cell in cells) + r" \\")
            lines += [r"\midrule"] * (position == 0)
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([*lines, *(f"% {line}" for line in notes), ""])


def markdown(tables: Sequence[StatsTable], notes: Sequence[str]) -> str:
    """Return Markdown tables and the notes as a list."""
    lines = []
    for each in tables:
        rule = ["---", *["---:"] * (len(each.heads) - 1)]
        cells = [[cell.replace("|", r"\|") for cell in line] for line in (each.heads, rule, *each.lines)]
        lines += [f"**{each.caption}**", "", *(f"| {' | '.join(line)} |" for line in cells), ""]
    return "\n".join([*lines, *(line if line.lstrip().startswith("-") else f"- {line}" for line in notes), ""])


def stats_json(found: Summary, worst: Sequence[tuple[Loss, Sequence[str]]]) -> Mapping[str, object]:
    """Return all numbers as JSON values."""
    ranking = found.ranking
    return {
        "instances": found.instances,
        "reference": found.reference,
        "standings": [asdict(one) for one in found.standings],
        "duels": [asdict(duel) for duel in found.duels],
        "bounded_instances": found.bounded,
        "horizon_s": found.horizon_s,
        "friedman_p": None if ranking is None else ranking.p,
        "critical_difference": None if ranking is None else ranking.critical_difference,
        "not_separated": [] if ranking is None else [[found.order[at] for at in group] for group in ranking.groups],
        "losses": [
            {"instance": each.instance, "gap": each.gap, "key": each.own.key, "best_key": each.best.key}
            | {"difference": next((words for loss, words in worst if loss is each), None)}
            for each in found.losses
        ],
        "left_out": list(found.left_out),
        "does_not_discriminate": list(found.undecided),
    }
