"""Data of an entry's page: how good its plan is, since when, by whom, how proven, and where to get the files."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.command_text import command_line
from bench.formatting import percent, worth
from instances.library import Credit, Library, LibraryEntry, LibraryFinding, LibraryLine
from instances.library.entry import NONE
from reports.page.entries.downloads import Download, has_model
from reports.page.entries.history_picture import history_picture
from reports.page.entries.rows import LibraryRow, library_row
from reports.page.pictures import Picture
from reports.page.plan_columns import GpuColumn, columns_of
from reports.page.styles import model_classes, model_colours
from reports.placement import pieces_on

_MOST_GPUS = 120
"""Largest number of GPUs that are drawn of the best plan."""

_MOST_WIDE_GPUS = 24
"""Largest number of GPUs in wide columns; narrow columns show no labels."""

_MOST_WORKLOADS = 300
"""Largest number of workloads in the table."""

_MOST_MODELLED = 100
"""Largest number of workloads for which the page names the command that writes the model."""

_PROOFS = {
    "exhaustive": "the checker tries every division of the workloads among the GPUs",
    "dual": "under the duals in the certificate, no set of workloads on a GPU is worth more than the GPU",
    "slices": "under the duals in the certificate, no set of MIG instances of a GPU is worth more than the GPU",
    "tree": "a search tree covers all plans; each leaf has duals under which no set of workloads is worth its GPU",
}
"""Explanations of the kinds of proofs."""


@dataclass(frozen=True)
class EntryPage:
    """Data of an entry's template.

    Attributes
    ----------
    row, entry, history
        Line of the index with its texts, the entry, and its findings, the oldest first.
    picture
        Best value and bound over the days; ``None`` without findings.
    columns, undrawn_gpus
        GPUs of the best plan that are drawn, and the number of the others.
    colours
        Fill of every model's slots.
    downloads
        Files of the entry.
    """

    row: LibraryRow
    entry: LibraryEntry
    history: Sequence[LibraryFinding]
    picture: Picture | None
    columns: Sequence[GpuColumn]
    undrawn_gpus: int
    colours: dict[str, str]
    downloads: Sequence[Download]

    @property
    def line(self) -> LibraryLine:
        """Line of the index."""
        return self.row.line

    @cached_property
    def classes(self) -> dict[str, str]:
        """CSS classes of every model."""
        return model_classes(self.colours)

    @property
    def workloads(self) -> Sequence[object]:
        """Workloads in the table."""
        return self.entry.instance.workloads[:_MOST_WORKLOADS]

    @property
    def narrow(self) -> bool:
        """Whether the columns of the GPUs are narrow."""
        return len(self.columns) > _MOST_WIDE_GPUS

    @property
    def full_pct(self) -> float:
        """Height of a column, in percent of a GPU."""
        return max([100.0, *(column.allocated_pct for column in self.columns)])

    @property
    def model_command(self) -> str:
        """Command that writes the linear model; empty without a model, or if its file would be very large."""
        if self.line.workloads > _MOST_MODELLED or not has_model(self.entry.instance):
            return ""
        return command_line("model", f"library/{self.line.name}", o="model.mps")

    def value_of(self, finding: LibraryFinding) -> str:
        """Return the value or the bound of a finding with its unit."""
        return NONE if finding.value == NONE else worth(float(finding.value), self.line.objective)

    @property
    def answers(self) -> list[tuple[str, str]]:
        """Questions about the entry, and their answers."""
        return [
            ("How good?", self._quality()),
            ("Since when?", self._dates()),
            ("By whom?", self._finders()),
            ("Proven how?", self._proof()),
            *([] if self.line.why_open is None else [("Why open?", self.line.why_open)]),
        ]

    def _quality(self) -> str:
        line = self.line
        if line.value is None:
            return "No plan exists; this is proven." if line.bound == NONE else f"No plan is known. {self._bound()}"
        best = f"The best-known plan has the value {self.row.value}"
        if line.closed:
            return f"{best}. It is proven best."
        if line.gap is None:
            return f"{best}. No bound is known."
        return f"{best}; the gap to the bound is {percent(line.gap)}. {self._bound()}"

    def _bound(self) -> str:
        relation = "below" if self.entry.instance.objective.minimised else "above"
        return "No bound is known." if self.line.bound is None else f"No plan is {relation} {self.row.bound}."

    def _dates(self) -> str:
        credits_of = {"plan": self.entry.plan_credit, "bound": self.entry.proof_credit}
        days = [f"{kind}: {credit.date}" for kind, credit in credits_of.items() if credit is not None and credit.date]
        return ", ".join(days).capitalize() + "." if days else "-"

    def _finders(self) -> str:
        credits_of = {"plan": self.entry.plan_credit, "bound": self.entry.proof_credit}
        finders = [f"{kind}: {_in_words(credit)}" for kind, credit in credits_of.items() if credit is not None]
        return "; ".join(finders)[:1].upper() + "; ".join(finders)[1:] + "." if finders else "-"

    def _proof(self) -> str:
        if self.line.proof is None:
            return "There is no proof."
        explanation = _PROOFS.get(self.line.proof)
        meaning = "" if explanation is None else f": {explanation}"
        return f"By a certificate of the kind {self.line.proof}{meaning}."

    @property
    def check_command(self) -> str:
        """Command that checks the certificate; empty without a certificate."""
        return "" if self.line.bound is None else command_line("check", f"{self.line.name}-certificate.json.gz")


def entry_page(
    library: Library, line: LibraryLine, history: Sequence[LibraryFinding], downloads: Sequence[Download]
) -> EntryPage:
    """Return the page of an entry with its findings and its files."""
    entry = library.entry(line.name)
    gpus = () if entry.plan is None else entry.plan.gpus
    drawn = gpus[:_MOST_GPUS]
    return EntryPage(
        library_row(line),
        entry,
        history,
        history_picture(history, line.objective),
        columns_of(drawn, pieces_on(drawn, entry.instance)),
        len(gpus) - len(drawn),
        model_colours(dict.fromkeys(entry.instance.model_of.values())),
        downloads,
    )


def _in_words(credit: Credit) -> str:
    """Return the finder with version, machine and work, as far as they are known."""
    details = [f"version {credit.version}" if credit.version else None, credit.machine, credit.work]
    known = ", ".join(filter(None, details))
    return f"{credit.by} ({known})" if known else credit.by
