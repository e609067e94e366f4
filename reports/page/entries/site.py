"""Static site of the library: an index of all entries, a page for each, and the files that they offer."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from jinja2 import Environment

from bench.provenance import distribution_version
from instances.grouping import grouped
from instances.library import Library, LibraryLine
from instances.library.history import LibraryFinding, read_history
from instances.performance import performance_in_words
from reports.charts.page import styled
from reports.page.entries.downloads import Download, download_makers, downloads
from reports.page.entries.entry_page import entry_page
from reports.page.entries.rows import library_picture, library_rows
from reports.page.environment import assets, environment
from reports.page.files import check_folder, file_contents, write_folder

PAGES = "entries"
"""Folder of the entries' pages within the site."""

_FILTERS = {
    "objective": "Objective",
    "proven": "State",
    "difficulty": "Difficulty",
    "performance_model": "Performance model",
    "slo_rule": "SLO rule",
    "plan_by": "Found by",
}
"""Labels of the index's filters, by key of ``LibraryRow.filters``."""


def write_library_site(library: Library, folder: Path, report: Callable[[float], None] | None = None) -> Path:
    """Write the site of a library into ``folder`` and return its first page; see ``file_contents`` for ``report``.

    Raises
    ------
    InputError
        If ``folder`` contains other files than a former site, or cannot be written.
    """
    check_folder(folder)
    write_folder(folder, library_site_files(library, report))
    return folder / "index.html"


def library_site_files(library: Library, report: Callable[[float], None] | None = None) -> dict[str, str | bytes]:
    """Return the files of the site, by path within its folder."""
    lines, history = library.summaries(), grouped((finding.entry, finding) for finding in read_history(library.folder))
    templates = environment()
    templates.globals |= {
        "version": distribution_version("gpushare-bench") or "",
        "performance_in_words": performance_in_words,
        "pages": PAGES,
    }
    makers: dict[str, Callable[[], str | bytes]] = {}
    for line in lines:
        files = downloads(library, line)
        findings = history.get(line.name, [])
        makers[f"{PAGES}/{line.name}.html"] = partial(_entry_text, templates, library, line, findings, files)
        makers |= download_makers(library, line, files)
    makers["index.html"] = partial(_index_text, templates, lines)
    # Matplotlib takes about one second to load. ``styled`` loads it here, before helper processes are forked.
    with styled():
        return {**assets(), **file_contents(makers, report)}


def _index_text(templates: Environment, lines: list[LibraryLine]) -> str:
    rows = library_rows(lines)
    choices = {key: sorted({row.filters[key] for row in rows} - {""}) for key in _FILTERS}
    template = templates.get_template("entries.html.j2")
    return template.render(root="", rows=rows, picture=library_picture(lines), choices=choices, labels=_FILTERS)


def _entry_text(
    templates: Environment, library: Library, line: LibraryLine, history: list[LibraryFinding], files: list[Download]
) -> str:
    page = entry_page(library, line, history, files)
    return templates.get_template("entry.html.j2").render(root="../", page=page)
