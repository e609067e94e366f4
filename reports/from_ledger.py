"""Figures of the runs in any ledger: ``bench figures --from``, and ``bench.figure`` in Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ledger.refutation import ledger_refutations, upheld
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.runner.inspection import inspect_schedulers
from bench.schedulers import registry
from reports import papers
from reports.charts.page import Page, PageFormat, save, styled
from reports.figure import Figure
from reports.selection import instances_of
from reports.statistics.ledger_summary import chosen_instances, chosen_schedulers


@dataclass(frozen=True, slots=True)
class LedgerRuns:
    """Runs of a ledger that figures are drawn from.

    Attributes
    ----------
    rows
        Rows that no plan refutes. Rows with default parameters come last, because a figure draws the last of a
        scheduler's runs.
    chosen
        Whether a user has chosen instances or schedulers.
    """

    rows: Sequence[Row]
    chosen: bool

    @classmethod
    def read(cls, ledger: Ledger | Path, instances: Sequence[str], schedulers: Sequence[str]) -> "LedgerRuns":
        """Return the runs of a ledger on these instances and by these schedulers; an empty sequence selects all.

        Raises
        ------
        InputError
            If there is no such ledger, or it has no run on a named instance or by a named scheduler.
        """
        if isinstance(ledger, Path):
            with Ledger(ledger) as open_ledger:
                return cls.read(open_ledger, instances, schedulers)
        where = str(ledger.path)
        rows = _defaults_last(upheld(ledger.rows(), ledger_refutations(ledger)))
        rows = chosen_schedulers(chosen_instances(rows, instances, where), schedulers, where)
        return cls(rows, bool(instances or schedulers))

    def of(self, figure: Figure) -> Sequence[Row]:
        """Return the rows that a figure is drawn from.

        A figure that can draw any runs is drawn from chosen runs, or else from the runs on the instances of its needs,
        if there are such runs.
        """
        if self.chosen or not figure.any_runs:
            return self.rows
        fingerprints = {instance.fingerprint for instance in instances_of(figure.needs).values()}
        return [row for row in self.rows if row.instance_hash in fingerprints] or self.rows


def figure(
    name: str,
    ledger: Ledger | str | Path,
    *,
    instances: str | Sequence[str] = (),
    schedulers: str | Sequence[str] = (),
    width_in: float | None = None,
    notes: bool = True,
    folder: str | Path | None = None,
) -> Page:
    """Draw a figure of ``bench list figures`` from the runs in a ledger; nothing is run.

    Parameters
    ----------
    name
        Name of the figure.
    ledger
        Ledger with the runs. Runs with other limits, versions or machines are used as well.
    instances, schedulers
        Only runs on these instances, and by these schedulers; one or several.
    width_in
        Width in inches; by default that of the figure.
    notes
        Whether notes are printed below the figure.
    folder
        Folder for the files of the figure: PDF, SVG and PNG. Without a folder, no file is written.

    Returns
    -------
    matplotlib.figure.Figure
        The figure. A notebook shows it as the result of a cell.

    Raises
    ------
    InputError
        If there is no such figure or ledger, or the ledger has no run of a named instance or scheduler.
    NothingToDrawError
        If the ledger lacks the figure's runs, or the figure is not drawn; the message has the remedy.

    Examples
    --------
    >>> import bench
    >>> runs = bench.run(["igniter-3", "igniter-12"], ["igniter", "ffd++"], ledger="runs.sqlite")
    >>> page = bench.figure("performance-profiles", "runs.sqlite", instances=["igniter-3", "igniter-12"])
    >>> len(page.axes) > 0
    True
    """
    declared = papers.figure(name, "name")
    chosen = [[texts] if isinstance(texts, str) else texts for texts in (instances, schedulers)]
    runs = LedgerRuns.read(ledger if isinstance(ledger, Ledger) else Path(ledger), *chosen)
    with styled(PageFormat(width_in, notes)):
        page = declared.draws(declared, runs.of(declared))
        if folder is not None:
            save(page, name, Path(folder))
    return page


def _defaults_last(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with default parameters last."""
    registered = registry.entries()
    names = {stage for row in rows for stage in row.scheduler.split("@")}
    infos = inspect_schedulers([registered[name] for name in sorted(names & registered.keys())])
    defaults = {name: info.stage.parameters for name, info in infos.items()}

    def has_defaults(row: Row) -> bool:
        return row.parameters == {stage: defaults.get(stage) for stage in row.scheduler.split("@")}

    return sorted(rows, key=has_defaults)
