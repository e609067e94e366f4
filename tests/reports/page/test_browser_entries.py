"""The site of the library in a browser: loading, sorting, filtering, widths and accessibility."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.reports.page.browser import column, type_into

PAGES = ["index.html", "entries/cost-turing-4.html", "entries/goodput-four-300.html"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_loads_from_disk_only_and_fits_on_a_phone(browser, library_site, page):
    browser.open((library_site / page).as_uri(), width=360, height=740)
    assert browser.console_messages == []
    assert all(address.startswith((library_site.as_uri(), "data:")) for address in browser.requested)
    assert browser.run("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_pages_have_no_accessibility_violations(browser, library_site, page, scheme, width):
    (folder,) = find_spec("axe_core_python").submodule_search_locations
    address = (library_site / page).as_uri()
    browser.open(address, width=width, prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    browser.run(Path(folder, "axe.min.js").read_text(encoding="utf-8") + "; 0")
    fields = "id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.html)"
    assert browser.run(f"axe.run().then(r => r.violations.map(v => ({{{fields}}})))") == []


def test_the_index_is_filtered_and_sorted(browser, library_site):
    browser.open((library_site / "index.html").as_uri())
    table = "document.querySelector('#entries table')"
    names = column(browser, table, 0)
    assert len(names) == 5
    browser.run(f"{table}.tHead.rows[0].cells[2].querySelector('button').click()")
    sizes = [int(text) for text in column(browser, table, 2)]
    assert sizes == sorted(sizes)
    type_into(browser, "[data-key=proven]", "open")
    assert set(column(browser, table, 0)) < set(names)
    assert set(column(browser, table, 8)) == {"open"}
    type_into(browser, "[data-key=proven]", "")
    type_into(browser, "[data-key=name]", "PARVA")
    assert column(browser, table, 0) == ["library-parvagpu-2"]
    assert browser.run("document.querySelector('.count').textContent") == "1 of 5 entries"


def test_the_first_screen_of_an_entry_has_the_answers(browser, library_site):
    browser.open((library_site / PAGES[1]).as_uri(), width=1440, height=900)
    bottoms = browser.run(
        "[...document.querySelectorAll('.answers dd')].map(one => one.getBoundingClientRect().bottom)"
    )
    assert len(bottoms) == 5
    assert max(bottoms) < 900
