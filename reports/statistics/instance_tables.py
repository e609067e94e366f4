"""Tables for a paper: the gap of each scheduler on each instance, and on each family of instances."""

import re
from statistics import fmean

from bench.formatting import percent, worth
from instances.grouping import grouped
from reports.statistics.summary import Summary
from reports.statistics.tables import StatsTable

_NUMBERS_AT_THE_END = re.compile(r"(-[sv]?\d+)+$")


def family_of(instance: str) -> str:
    """Return the family of an instance: its name without numbers at the end, such as ``cost-t4`` of ``cost-t4-24-v2``.

    ``exact-10-s2`` belongs to ``exact``.
    """
    return _NUMBERS_AT_THE_END.sub("", instance)


def instance_table(summary: Summary) -> StatsTable:
    """Return a table of the best known value and of every scheduler's gap to it, with a line per instance."""
    names = [standing.name for standing in summary.standings]
    lines = [
        [each.instance, worth(each.best, each.objective), *(percent(each.gaps[name]) for name in names)]
        for each in summary.by_instance
    ]
    caption = "Gap to the best known value, by instance"
    return StatsTable(caption, ["instance", "best", *names], lines, "instances", long=True)


def family_table(summary: Summary) -> StatsTable:
    """Return a table of every scheduler's mean gap to the best known values, with a line per family."""
    names = [standing.name for standing in summary.standings]
    families = grouped((family_of(each.instance), each) for each in summary.by_instance)
    lines = [
        [family, str(len(members)), *(percent(fmean(each.gaps[name] for each in members)) for name in names)]
        for family, members in families.items()
    ]
    caption = "Mean gap to the best known value, by family of instances"
    return StatsTable(caption, ["family", "instances", *names], lines, "families")
