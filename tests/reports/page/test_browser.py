"""The report's pages in a browser: loading, sorting, filtering, printing and accessibility."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.reports.page.browser import column, type_into

PAGES = ["index", "runs", "igniter-12", "gpulet-game", "hostile"]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_loads_from_disk_only_and_without_console_messages(browser, addresses, site, page):
    browser.open(addresses[page])
    assert browser.console_messages == []
    assert all(address.startswith((site.as_uri(), "data:")) for address in browser.requested)
    assert browser.run("document.querySelector('h1').textContent.trim().length") > 3


@pytest.mark.parametrize("page", PAGES)
def test_on_a_phone_no_page_scrolls_sideways(browser, addresses, page):
    browser.open(addresses[page], width=360, height=740)
    assert browser.run("innerWidth") == 360
    assert browser.run("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1440),
        ("dark", 390),
        pytest.param("light", 390, marks=pytest.mark.soak),
        pytest.param("dark", 1440, marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("page", PAGES)
def test_pages_have_no_serious_accessibility_violations(browser, addresses, page, scheme, width):
    (folder,) = find_spec("axe_core_python").submodule_search_locations
    browser.open(addresses[page], width=width, prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    browser.run(Path(folder, "axe.min.js").read_text(encoding="utf-8") + "; 0")
    if page == "runs":
        browser.run("document.querySelector('#runs tbody button').click()")  # check the dialog of a run, too
    if page == "igniter-12":
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true; 0")
    fields = "id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.html)"
    violations = browser.run(f"axe.run().then(r => r.violations.map(v => ({{{fields}}})))")
    assert [violation for violation in violations if violation["impact"] in ("serious", "critical")] == []


WIDTHS = [(1440, 900), (390, 844)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), WIDTHS)
def test_the_first_screen_has_the_three_answers_and_the_scatter(browser, addresses, width, height, scheme):
    browser.open(addresses["index"], width=width, height=height, prefers_color_scheme=scheme)
    shown = "document.querySelector('.first:not([hidden])')"
    boxes = browser.run(
        f"[...{shown}.querySelectorAll('.answers dd, .scatter > svg')].map(one => one.getBoundingClientRect().toJSON())"
    )
    assert len(boxes) == 4  # three sentences and the scatter
    assert all(box["left"] >= 0 and box["right"] <= width and box["height"] > 20 for box in boxes)
    assert all(box["bottom"] <= height for box in boxes[:3])
    assert boxes[3]["top"] < height
    assert browser.console_messages == []
    names = browser.run(f"[...{shown}.querySelectorAll('.scatter .name')].map(one => one.textContent)")
    assert "igniter" in names


@pytest.mark.parametrize(("width", "height"), WIDTHS)
def test_labels_of_the_scatter_do_not_overlap(browser, addresses, width, height):
    browser.open(addresses["index"], width=width, height=height)
    texts = "[...document.querySelectorAll('.first:not([hidden]) .scatter text')]"
    boxes = browser.run(f"{texts}.map(one => [one.textContent, one.getBoundingClientRect().toJSON()])")
    for index, (text, a) in enumerate(boxes):
        assert -1 <= a["left"] < a["right"] <= width + 1, text
        for other_text, b in boxes[:index]:
            overlap = (
                min(a["right"], b["right"]) - max(a["left"], b["left"]),
                min(a["bottom"], b["bottom"]) - max(a["top"], b["top"]),
            )
            assert min(overlap) <= 2, (text, other_text)


def test_on_a_phone_name_value_gap_and_holds_are_visible(browser, addresses):
    browser.open(addresses["index"], width=390, height=844)
    for table in (".first:not([hidden]) table", "[data-suite=igniter-12] table"):
        heads = browser.run(
            f"[...document.querySelectorAll('{table} thead th')].filter(one => one.checkVisibility())"
            ".map(one => [one.textContent.trim(), one.getBoundingClientRect().right])"
        )
        visible_heads = [name for name, right in heads if right <= 390]
        names = [name for name in visible_heads if name not in ("#", "Value")]
        assert names[:3] in (["Scheduler", "Gap to bound", "Holds"], ["Scheduler", "Behind best", "Holds"])
        assert "Value" in visible_heads or table.startswith(".first")  # several instances have no value in common
    count = "[...document.querySelectorAll('[data-suite=igniter-12] thead th')].filter(x => x.checkVisibility()).length"
    few_columns = browser.run(count)
    browser.run("document.querySelector('[data-suite=igniter-12] .columns input').click()")
    assert browser.run(count) > few_columns


def test_the_first_screen_follows_the_choice_of_objective_and_suite(browser, addresses):
    browser.open(addresses["index"])
    visible_screens = "[...document.querySelectorAll('.first')].filter(one => !one.hidden)"

    def shown():
        return [choices.split("\n") for choices in browser.run(f"{visible_screens}.map(one => one.dataset.choice)")]

    (everything,) = shown()
    assert "|" in everything
    type_into(browser, "#selection [data-key=suite]", "igniter-12")
    (twelve,) = shown()
    assert "igniter-12|" in twelve
    type_into(browser, "#selection [data-key=objective]", "cost")
    assert shown() == [twelve]  # all of its instances have this objective
    assert "igniter-12|cost" in twelve
    assert browser.run(f"{visible_screens}[0].querySelector('.scatter > svg') !== null")
    type_into(browser, "#selection [data-key=objective]", "scale")
    assert shown() == []
    assert browser.run("!document.querySelector('#answers .nothing').hidden")


def test_points_of_the_scatter_have_names_and_distances(browser, addresses):
    browser.open(addresses["index"])
    titles = browser.run(
        "[...document.querySelectorAll('.first:not([hidden]) .scatter use')].map(one => one.textContent.split('\\n'))"
    )
    assert "igniter" in [name for name, _, _ in titles]
    assert all("away" in distance for _, distance, _ in titles)


def test_tables_are_sorted_by_a_click_and_by_the_keyboard(browser, addresses):
    browser.open(addresses["index"])
    table = "document.querySelector('#instances table')"
    sizes = [int(text) for text in column(browser, table, 3) if text != "-"]
    head = f"{table}.tHead.rows[0].cells[3]"
    browser.run(f"{head}.querySelector('button').click()")
    assert [int(t) for t in column(browser, table, 3) if t != "-"] == sorted(sizes)
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "ascending"
    browser.run(f"{head}.querySelector('button').focus()")
    browser.press("Enter")
    assert [int(t) for t in column(browser, table, 3) if t != "-"] == sorted(sizes, reverse=True)
    assert browser.run(f"{head}.getAttribute('aria-sort')") == "descending"


def test_unknown_numbers_stay_last(browser, addresses):
    browser.open(addresses["index"])
    table = "document.querySelector('[data-suite=igniter-12] table')"
    column_number = browser.run(f"[...{table}.tHead.rows[0].cells].findIndex(c => c.textContent.startsWith('Gap'))")
    for _ in range(2):
        browser.run(f"{table}.tHead.rows[0].cells[{column_number}].querySelector('button').click()")
        assert column(browser, table, column_number)[-1] == "-"


def choose(browser, key, value):
    type_into(browser, f"#leaderboard [data-key={key}]", value)


def test_the_leaderboard_can_be_filtered(browser, addresses):
    browser.open(addresses["index"])

    def shown():
        rows = "[...document.querySelectorAll('#leaderboard tbody tr:not([hidden])')]"
        return browser.run(f"{rows}.map(r => [r.dataset.suite, r.dataset.name])")

    everything = shown()
    choose(browser, "suite", "igniter-12")
    assert {suite for suite, _ in shown()} == {"igniter-12"}
    assert browser.run("document.querySelectorAll('.board:not([hidden])').length") == 1
    choose(browser, "outcomes", "breaks constraints")
    assert shown() == [["igniter-12", "ffd+"]]
    choose(browser, "outcomes", "")
    choose(browser, "name", "IGN")
    assert shown() == [["igniter-12", "igniter"]]
    for key in ("name", "suite"):
        choose(browser, key, "")
    assert shown() == everything


def test_the_theme_is_that_of_the_system_until_one_is_chosen(browser, addresses):
    background = "getComputedStyle(document.body).backgroundColor"
    browser.open(addresses["index"], prefers_color_scheme="dark")
    dark = browser.run(background)
    browser.open(addresses["index"], prefers_color_scheme="light")
    light = browser.run(background)
    assert dark != light
    themes = []
    for _ in range(3):
        browser.run("document.getElementById('theme').click()")
        themes.append((browser.run("document.getElementById('theme').textContent"), browser.run(background)))
    assert themes == [("Theme: light", light), ("Theme: dark", dark), ("Theme: system", light)]


def test_a_chosen_theme_applies_to_other_pages(browser, addresses):
    browser.open(addresses["index"], prefers_color_scheme="light")
    browser.run("theme.set('dark')")
    browser.open(addresses["runs"], prefers_color_scheme="light")
    assert browser.run("document.documentElement.dataset.theme") == "dark"
    browser.run("theme.set('system')")


def test_all_runs_can_be_saved_as_csv(browser, addresses, rows):
    browser.open(addresses["runs"])
    browser.run("window.saved = []; saveFile = (name, text) => saved.push(text); 0")
    browser.run("document.querySelector('[data-csv]').click()")
    assert browser.console_messages == []
    lines = browser.run("saved[0]").split("\r\n")
    assert lines[0].startswith("key,suite,instance,")
    assert {line[:64] for line in lines[1:] if line} >= {row.key for row, _ in rows}


def test_an_address_can_select_runs_or_open_one_run(browser, addresses, rows):
    browser.open(f"{addresses['runs']}#entrant=ffd%2B%2B&suite=igniter-scaling")
    assert browser.run("document.querySelectorAll('#runs tbody tr').length") == 3
    browser.open(f"{addresses['runs']}#key={rows[0][0].key}")
    assert browser.run("document.querySelector('dialog').open")
    text = browser.run("document.querySelector('dialog').innerText")
    for fact in (rows[0][0].key, "AMD EPYC", "bench run --instances igniter-12 --schedulers igniter"):
        assert fact in text


def test_addresses_match_whole_names_and_typed_filters_parts_of_names(browser, addresses):
    browser.open(f"{addresses['runs']}#entrant=ffd%2B&instance=igniter-12")
    table = "document.getElementById('runs')"
    assert column(browser, table, 1) == ["ffd+"]
    type_into(browser, "#run-filters [data-key=entrant]", "FFD")
    assert set(column(browser, table, 1)) == {"ffd+", "ffd++"}
    browser.run(
        "new Promise((done) => { addEventListener('hashchange', () => done(), { once: true });"
        " location.hash = 'suite=igniter-scaling'; })"
    )
    assert len(column(browser, table, 1)) == 6
    assert browser.run("document.querySelector('#run-filters [data-key=instance]').value") == ""


def test_links_to_runs_select_the_number_of_runs_that_they_state(browser, addresses):
    browser.open(addresses["index"])
    links = browser.run(
        "[...document.querySelectorAll('#leaderboard tbody a')].map(a => [new URL(a.href).hash, a.textContent])"
    )
    assert len(links) > 5
    browser.open(addresses["runs"])
    for fragment, count in links:
        browser.run(f"location.hash = {json.dumps(fragment)}; followAddress()")
        assert browser.run("list.found.length") == int(count), fragment


def test_values_have_units_and_are_sorted_by_unit(browser, addresses):
    browser.open(addresses["runs"])
    browser.run("document.querySelectorAll('#runs thead button')[4].click()")
    values = column(browser, "document.getElementById('runs')", 4)
    units = [value.partition(" ")[2] for value in values if value != "-"]
    assert {"$/h"} < set(units) <= {"$/h", "req/s", "x"}
    assert units == sorted(units)


def test_instances_are_sorted_by_value_within_a_unit(browser, addresses):
    browser.open(addresses["index"])
    table = "document.querySelector('#instances table')"
    for text in ("Best plan", "Best plan", "Certified bound"):
        column_number = browser.run(
            f"[...{table}.tHead.rows[0].cells].findIndex(c => c.textContent.startsWith('{text}'))"
        )
        browser.run(f"{table}.tHead.rows[0].cells[{column_number}].querySelector('button').click()")
        units = [value.split()[1] for value in column(browser, table, column_number) if value != "-"]
        assert len(units) > 0
        assert units == sorted(units)


@pytest.mark.parametrize("page", ["index", "runs"])
def test_filters_that_the_browser_restores_are_applied(browser, addresses, page):
    browser.open(addresses[page])
    form = "#leaderboard " if page == "index" else ""
    type_into(browser, f"{form}[data-key=suite]", "igniter-12")
    count = "document.querySelector('.count').textContent"
    filtered = browser.run(count)
    browser.open(addresses["igniter-12"])
    browser.back()
    assert browser.run(f"document.querySelector('{form}[data-key=suite]').value") == "igniter-12"
    assert browser.run(count) == filtered


def test_the_scheduler_stays_visible_while_its_line_is_scrolled(browser, addresses):
    browser.open(addresses["index"], width=360, height=740)
    browser.run("for (const box of document.querySelectorAll('.columns input')) box.click(); 0")
    lefts = browser.run(
        """[...document.querySelectorAll(".board .scroll")].map((scroll) => {
          scroll.scrollLeft = 10_000;
          const left = (one) => one.getBoundingClientRect().left;
          return [scroll.scrollLeft, left(scroll.querySelector("tbody th")) - left(scroll)];
        })"""
    )
    assert any(scrolled > 0 for scrolled, _ in lefts)
    assert all(0 <= left <= 60 for _, left in lefts)
    assert browser.run("document.querySelector('.board tbody tr').querySelector('a').href").count("runs.html#")


def test_printed_pages_are_light_and_complete(browser, addresses, crowded):
    browser.open(addresses["igniter-12"])
    browser.run("theme.set('dark')")
    browser.ask("Emulation.setEmulatedMedia", media="print", features=[])
    style = "getComputedStyle(document.querySelector('{}')).{}"
    try:
        assert browser.run(style.format("body", "color")) == "rgb(27, 34, 40)"
        assert browser.run(style.format(".gpus i", "printColorAdjust")) == "exact"
        assert browser.run(style.format(".keys", "display")) != "none"
        browser.open(addresses["index"])
        browser.ask("Emulation.setEmulatedMedia", media="print", features=[])
        assert browser.run(style.format(".scroll", "overflowX")) == "visible"
        browser.open(crowded["index"])
        browser.ask("Emulation.setEmulatedMedia", media="print", features=[])
        assert browser.run("document.querySelector('#leaderboard tbody tr:last-child').checkVisibility()")
    finally:
        browser.ask("Emulation.setEmulatedMedia", media="", features=[])
        browser.run("theme.set('system')")


def test_long_lists_are_cut_until_all_items_are_requested(browser, crowded):
    visible = "[...document.querySelectorAll('{}')].filter(one => one.checkVisibility()).map(one => one.dataset.name)"
    for page, items in (("index", "#leaderboard tbody tr"), ("igniter-12", ".plan")):
        browser.open(crowded[page])
        visible_names = visible.format(items)
        assert len(browser.run(visible_names)) == 12
        type_into(browser, "[data-key=name]", "variant=1")
        assert len(browser.run(visible_names)) == 11  # variants 1 and 10 to 19: filtered lists are not cut
        type_into(browser, "[data-key=name]", "")
        browser.run("document.querySelector('.more').click()")
        assert len(browser.run(visible_names)) == 20
        browser.run("document.querySelector('.more').click()")
        assert len(browser.run(visible_names)) == 12
        assert browser.console_messages == []
