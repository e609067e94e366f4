"""Declarations of figures: their runs, their drawings and their claims; figures that are not drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ledger.row import Row
from reports.charts.page import OWN_FORMAT, Page, PageFormat, save, styled
from reports.claim import Claim
from reports.need import Need


@dataclass(frozen=True, slots=True)
class NotDrawn:
    """A figure, table or algorithm of a paper that is not drawn; a text can show ``reason`` after a colon."""

    name: str
    title: str
    paper: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Declaration of a figure: its runs, its drawing and its claims.

    Attributes
    ----------
    name
        Name in ``bench figures NAME``, and of its files.
    title
        Title, one line long.
    paper
        The paper's figure that this figure reproduces; ``ours`` if no paper has such a figure.
    shows
        The paper's result.
    look_for
        Hint on how to read this figure.
    cost
        Number and duration of its runs.
    needs
        Runs that it draws.
    claims
        The paper's statements that EXPERIMENTS.md compares with our numbers.
    any_runs
        Whether the figure also draws runs on instances outside its needs.
    draws
        Function of the figure and the rows of its runs; it returns the drawn page. It raises ``NothingToDrawError``
        as ``draw`` does.
    """

    name: str
    title: str
    paper: str
    shows: str
    look_for: str
    cost: str = "no runs, a second"
    needs: tuple[Need, ...] = ()
    claims: tuple[Claim, ...] = ()
    any_runs: bool = False
    draws: Callable[["Figure", Sequence[Row]], Page]

    def draw(self, rows: Sequence[Row], folder: Path, page_format: PageFormat = OWN_FORMAT) -> list[Path]:
        """Draw the rows of its runs into a folder and return the files; failed runs are named on the figure.

        Raises
        ------
        NothingToDrawError
            If the rows and the available measurements give the figure nothing to draw.
        """
        with styled(page_format):
            return save(self.draws(self, rows), self.name, folder)
