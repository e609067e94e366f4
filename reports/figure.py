"""Figures: what each needs, draws and claims; and the reasons of figures that are not drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ledger.row import Row
from reports.charts.page import Page, save, styled
from reports.claim import Claim
from reports.need import Need


@dataclass(frozen=True, slots=True)
class NotDrawn:
    """A figure, table or algorithm of a paper that is not drawn; ``reason`` is in words that can follow a colon."""

    name: str
    title: str
    paper: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """Declaration of a figure: what it needs, draws and claims.

    Attributes
    ----------
    name
        Name in ``bench figures NAME``, and of its files.
    title
        Title of one line.
    paper
        The figure that it reproduces; ``ours`` if no paper has one.
    shows
        The paper's result.
    look_for
        How to read this figure.
    cost
        Number and duration of its runs.
    claims
        The paper's statements that EXPERIMENTS.md compares with our numbers.
    any_runs
        Whether it also draws runs on other instances than those of its needs.
    draws
        Function that returns the page of the figure, its first argument, with the rows of its runs drawn on it.
        It raises ``NothingToDrawError`` as ``draw`` does.
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

    def draw(self, rows: Sequence[Row], folder: Path) -> list[Path]:
        """Draw the rows of its runs into a folder and return the files; failed runs are named on the figure.

        Raises
        ------
        NothingToDrawError
            If neither the rows nor the available measurements give it anything to draw.
        """
        with styled():
            return save(self.draws(self, rows), self.name, folder)
