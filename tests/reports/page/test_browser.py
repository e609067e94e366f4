"""The report as a browser shows it: it loads, sorts, filters, draws, and everybody can use it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.cli import main
from bench.ledger.store import Ledger
from heuristics.igniter.igniter import IGniter
from instances.files import plan_from_json, plan_to_json
from reports.placement import pieces
from tests.reports.page.browser import CHROMIUM, Browser
from tests.reports.page.runs_made_here import BOUND, TWELVE, run_of

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    running = Browser(tmp_path_factory.mktemp("chromium"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def addresses(site: Path) -> dict[str, str]:
    found = {path.name.rpartition("-")[0] or path.stem: path.as_uri() for path in site.rglob("*.html")}
    hostile = next(name for name in found if name.startswith("__script"))
    return {"hostile": found.pop(hostile), **found}


PAGES = ["index", "runs", "igniter-12", "gpulet-game", "hostile"]


def column(browser, table, number):
    cells = (
        f"[...{table}.tBodies[0].rows].filter(row => !row.hidden).map(row => row.cells[{number}].textContent.trim())"
    )
    return browser.run(cells)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_loads_without_complaint_from_disk_alone(browser, addresses, site, page):
    browser.open(addresses[page])
    assert browser.complaints == []
    assert all(address.startswith((site.as_uri(), "data:")) for address in browser.requested)
    assert browser.run("document.querySelector('h1').textContent.trim().length") > 3


@pytest.mark.parametrize("page", PAGES)
def test_on_a_phone_nothing_scrolls_sideways(browser, addresses, page):
    browser.open(addresses[page], width=360, height=740)
    assert browser.run("innerWidth") == 360
    assert browser.run("document.documentElement.scrollWidth") == 360


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_everybody_can_use_it(browser, addresses, page, scheme):
    (folder,) = find_spec("axe_core_python").submodule_search_locations
    browser.open(addresses[page], prefers_color_scheme=scheme, prefers_reduced_motion="reduce")
    browser.run(Path(folder, "axe.min.js").read_text(encoding="utf-8") + "; 0")
    if page == "runs":
        browser.run("document.querySelector('#runs tbody button').click()")  # the dialog as well
    if page == "igniter-12":
        browser.run("for (const one of document.querySelectorAll('details')) one.open = true; 0")
    told = "id: v.id, impact: v.impact, nodes: v.nodes.map(n => n.html)"
    found = browser.run(f"axe.run().then(r => r.violations.map(v => ({{{told}}})))")
    assert [violation for violation in found if violation["impact"] in ("serious", "critical")] == []


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
    at = browser.run(f"[...{table}.tHead.rows[0].cells].findIndex(c => c.textContent.startsWith('Gap'))")
    for _ in range(2):
        browser.run(f"{table}.tHead.rows[0].cells[{at}].querySelector('button').click()")
        assert column(browser, table, at)[-1] == "-"


def type_into(browser, selector, value):
    browser.run(
        f"""(() => {{ const input = document.querySelector({json.dumps(selector)});
        input.value = {json.dumps(value)};
        for (const kind of ["input", "change"]) input.dispatchEvent(new Event(kind, {{ bubbles: true }})); }})()"""
    )


def choose(browser, key, value):
    type_into(browser, f"#leaderboard [data-key={key}]", value)


def test_the_leaderboard_is_filtered(browser, addresses):
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


def test_the_theme_is_the_systems_until_one_is_chosen(browser, addresses):
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.open(addresses["index"], prefers_color_scheme="dark")
    dark = browser.run(paper)
    browser.open(addresses["index"], prefers_color_scheme="light")
    light = browser.run(paper)
    assert dark != light
    seen = []
    for _ in range(3):
        browser.run("document.getElementById('theme').click()")
        seen.append((browser.run("document.getElementById('theme').textContent"), browser.run(paper)))
    assert seen == [("Theme: light", light), ("Theme: dark", dark), ("Theme: system", light)]


def test_a_chosen_theme_stays(browser, addresses):
    browser.open(addresses["index"], prefers_color_scheme="light")
    browser.run("theme.set('dark')")
    browser.open(addresses["runs"], prefers_color_scheme="light")
    assert browser.run("document.documentElement.dataset.theme") == "dark"
    browser.run("theme.set('system')")


def test_boxes_are_as_high_as_their_shares(browser, addresses, rows):
    browser.open(addresses["igniter-12"])
    for row, instance in rows[:3]:
        box = "const b = i.getBoundingClientRect(), g = i.parentElement.getBoundingClientRect()"
        box += ", pct = 100 / (g.height - 2)"  # a pixel of border above and below
        measure = f"{box}; return [i.textContent, pct * b.height, pct * (g.bottom - 1 - b.bottom)]"
        card = f"[...document.querySelectorAll('.plan')].find(c => c.innerHTML.includes('{row.key[:8]}'))"
        found = browser.run(f"[...{card}.querySelectorAll('.gpus i')].map(i => {{ {measure} }})")
        wanted = [(f"{p.workload} {p.batch}", p.share_pct, p.start_pct) for p in pieces(row, instance)]
        assert [text for text, _, _ in found] == [text for text, _, _ in wanted]
        for (_, share, start), (_, share_pct, start_pct) in zip(found, wanted, strict=True):
            assert share == pytest.approx(share_pct, abs=0.6)
            assert start == pytest.approx(start_pct, abs=0.6)


def test_slots_that_take_turns_stand_side_by_side(browser, addresses, rows):
    (row, instance) = next((row, instance) for row, instance in rows if instance.name == "gpulet-game")
    turns = [piece.turns for piece in pieces(row, instance)]
    assert max(turns) > 1
    browser.open(addresses["gpulet-game"])
    widths = browser.run(
        "[...document.querySelectorAll('.gpus i')].map(i => i.offsetWidth / (i.parentElement.clientWidth))"
    )
    assert widths == pytest.approx([1.0 / n for n in turns], abs=0.06)


def test_what_is_under_the_arrow_keys_is_told(browser, addresses, rows):
    browser.open(addresses["igniter-12"])
    browser.run("document.querySelector('.gpus').focus()")
    browser.press("ArrowRight")
    key = browser.run("pageData('page-data').runs[0].key")
    row = next(row for row, _ in rows if row.key == key)
    slot = row.plan["gpus"][0]["gpulets"][0]["slots"][0]
    told = browser.run("document.getElementById('tip').innerText")
    model = next(one.model for one in TWELVE.workloads if one.id == slot["workload"])
    assert told.startswith(f"{slot['workload']} · {model}")
    assert f"batch {slot['batch']}" in told
    browser.press("Escape")
    assert browser.run("document.getElementById('tip').hidden")


@pytest.mark.parametrize("page", ["igniter-12", "gpulet-game"])
def test_a_plan_is_saved_as_the_file_it_came_from(browser, addresses, rows, page):
    browser.open(addresses[page])
    browser.run("window.saved = []; saveFile = (name, text) => saved.push([name, text]); 0")
    browser.run("for (const one of document.querySelectorAll('[data-download=plan]')) one.click(); 0")
    saved = browser.run("saved")
    keys = browser.run("pageData('page-data').runs.map(run => run.key)")
    assert len(saved) == len(keys) >= 1
    for key, (name, text) in zip(keys, saved, strict=True):
        row, instance = next((row, instance) for row, instance in rows if row.key == key)
        assert name.endswith(f"{key[:12]}.json")
        assert json.loads(text) == json.loads(json.dumps(plan_to_json(plan_from_json(row.plan), instance)))


def test_all_runs_are_saved_as_a_table(browser, addresses, rows):
    browser.open(addresses["runs"])
    browser.run("window.saved = []; saveFile = (name, text) => saved.push(text); 0")
    browser.run("document.getElementById('csv').click()")
    assert browser.complaints == []
    lines = browser.run("saved[0]").split("\r\n")
    assert lines[0].startswith("key,suite,instance,")
    assert {line[:64] for line in lines[1:] if line} >= {row.key for row, _ in rows}


def test_an_address_asks_for_runs_and_for_one_run(browser, addresses, rows):
    browser.open(f"{addresses['runs']}#entrant=ffd%2B%2B&suite=igniter-scaling")
    assert browser.run("document.querySelectorAll('#runs tbody tr').length") == 3
    browser.open(f"{addresses['runs']}#key={rows[0][0].key}")
    assert browser.run("document.querySelector('dialog').open")
    told = browser.run("document.querySelector('dialog').innerText")
    for fact in (rows[0][0].key, "AMD EPYC", "bench run --instances igniter-12 --schedulers igniter"):
        assert fact in told


def test_an_address_matches_whole_names_and_typing_parts_of_them(browser, addresses):
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


def test_links_to_runs_open_as_many_as_they_say(browser, addresses):
    browser.open(addresses["index"])
    links = browser.run(
        "[...document.querySelectorAll('#leaderboard tbody a')].map(a => [new URL(a.href).hash, a.textContent])"
    )
    assert len(links) > 5
    browser.open(addresses["runs"])
    for fragment, count in links:
        browser.run(f"location.hash = {json.dumps(fragment)}; follow()")
        assert browser.run("found.length") == int(count), fragment


def test_values_are_told_with_their_units_and_sorted_among_their_own(browser, addresses):
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
        at = browser.run(f"[...{table}.tHead.rows[0].cells].findIndex(c => c.textContent.startsWith('{text}'))")
        browser.run(f"{table}.tHead.rows[0].cells[{at}].querySelector('button').click()")
        units = [value.partition(" ")[2] for value in column(browser, table, at) if value != "-"]
        assert len(units) > 0
        assert units == sorted(units)


@pytest.mark.parametrize("page", ["index", "runs"])
def test_filters_that_the_browser_puts_back_are_applied(browser, addresses, page):
    browser.open(addresses[page])
    type_into(browser, "[data-key=suite]", "igniter-12")
    count = "document.querySelector('.count').textContent"
    filtered = browser.run(count)
    browser.open(addresses["igniter-12"])
    browser.back()
    assert browser.run("document.querySelector('[data-key=suite]').value") == "igniter-12"
    assert browser.run(count) == filtered


def test_charts_tell_what_is_pointed_at_and_leave_out_what_is_switched_off(browser, addresses):
    browser.open(addresses["igniter-12"])
    for chart, kind in (("progress", "plan"), ("latency", "SLO"), ("measured", "W1")):
        assert browser.run(f"document.querySelectorAll('#{chart}-chart .series').length") > 0, chart
        browser.run(f"document.querySelector('#{chart}-chart .plot').focus()")
        browser.press("ArrowRight")
        assert kind in browser.run("document.getElementById('tip').innerText"), chart
    series = "document.querySelectorAll('#latency-chart .series').length"
    before = browser.run(series)
    browser.run("document.querySelector('#latency-chart .switches button').click()")
    assert browser.run(series) == before - 1
    assert (
        browser.run("document.querySelector('#latency-chart .switches button').getAttribute('aria-pressed')") == "false"
    )


def test_what_is_switched_off_stays_off(browser, addresses):
    browser.open(addresses["igniter-12"])
    browser.run("document.querySelector('#latency-chart .switches button').click()")
    series = "[...document.querySelectorAll('#latency-chart .series[data-name]')].map(g => g.dataset.name)"
    left = browser.run(series)
    type_into(browser, "#latency-workload", "0")
    assert browser.run(series) == left
    assert browser.complaints == []


def draw(browser, series, y):
    """Draw a chart of series like those of the gap over time."""
    browser.run(
        f"""(() => {{ const figure = make("figure", {{ class: "chart", id: "drawn", "data-label": "Drawn" }});
        document.querySelector("main").append(figure);
        const look = {{ light: "#000000", dark: "#ffffff", marker: "o" }};
        drawChart(figure, {{
          series: {json.dumps(series)}.map((one) => ({{ look, shape: "step", until: 10, ...one }})),
          x: {{ title: "Time", log: true, domain: [0.001, 10] }}, y: {json.dumps(y)},
        }}); }})()"""
    )


def test_plans_far_from_the_reference_are_drawn_and_can_be_reached(browser, addresses):
    browser.open(addresses["igniter-12"])
    series = [
        {"name": "near", "points": [[0.0, 3], [1, 0]]},
        {"name": "far", "points": [[0.0001, 900]]},
        {"name": "below", "points": [[2, -5000]]},
    ]
    draw(browser, series, {"title": "Distance", "bent": True})
    browser.run("document.querySelector('#drawn .plot').focus({ preventScroll: true })")
    told = []
    for _ in range(4):
        browser.press("ArrowRight")
        told.append(browser.run("document.getElementById('tip').innerText").split("\n"))
    expected = [("near", "0", "3"), ("near", "1", "0"), ("far", "0.0001", "900"), ("below", "2", "-5,000")]
    assert told == [[name, f"Time: {x}", f"Distance: {y}"] for name, x, y in expected]
    places = browser.run(
        """(() => { const plot = document.querySelector("#drawn .plot").getBoundingClientRect();
        return [...document.querySelectorAll("#drawn .plot use")].map(use => use.getBoundingClientRect())
          .map(b => [b.left - plot.left, plot.right - b.right, b.top - plot.top, plot.bottom - b.bottom]); })()"""
    )
    assert len(places) == 4
    assert min(min(place) for place in places) > 0


def test_what_is_drawn_beyond_the_last_point_is_no_value(browser, addresses):
    browser.open(addresses["igniter-12"])
    browser.run("window.saved = []; saveFile = (name, text) => saved.push(text); 0")
    browser.run("document.querySelector('#progress-chart > button').click()")
    lines = browser.run("saved[0]").split("\r\n")[1:-1]
    wanted = browser.run(
        """pageData("page-data").runs.flatMap(({ name, progress: { plans, bounds } }) => [
          ...plans.map((point) => [name, "plan", ...point]),
          ...bounds.map((point) => [name, "certified bound", ...point]),
        ])"""
    )
    assert len(lines) == len(wanted) > 0
    assert lines == browser.run(f"csv({json.dumps(wanted)})").split("\r\n")[:-1]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("span", [(3.0, 4.0), (8.5, 47.0), (95.0, 105.0), (0.0011, 900.0), (7.0, 7.0), (0.3, 2e9)])
@pytest.mark.parametrize("wanted", [2, 4, 15])
def test_every_axis_has_two_labels_and_encloses_its_values(browser, span, log, wanted):
    axis = {"log": log}
    found = browser.run(f"scale({json.dumps(axis)}, {json.dumps(span)}, 0, 500, {wanted})")
    assert len(found["ticks"]) >= 2
    assert found["domain"][0] <= span[0] <= span[1] <= found["domain"][1]
    assert found["ticks"][-1] >= span[1] * (1 - 1e-9)


def test_a_tap_tells_until_another_one_elsewhere(browser, addresses):
    browser.open(addresses["igniter-12"], width=360, height=740)
    tip = "document.getElementById('tip')"
    first, second = (
        "document.querySelectorAll('.gpus i')[0]",
        "document.querySelectorAll('.gpus')[1].querySelector('i')",
    )
    for box in (first, second, first):
        browser.tap(box)
        name = browser.run(f"{box}.querySelector('b').textContent")
        assert browser.run(f"!{tip}.hidden && {tip}.innerText").startswith(f"{name} ·")
    browser.tap("document.querySelector('#latency-chart .series use')")
    assert "SLO" in browser.run(f"!{tip}.hidden && {tip}.innerText")
    browser.tap("document.querySelector('h2')")
    assert browser.run(f"{tip}.hidden")
    assert browser.run("document.querySelectorAll('.gpus .current').length") == 0


def test_no_label_is_cut_by_its_box(browser, addresses):
    for page in ("igniter-12", "gpulet-game"):
        browser.open(addresses[page])
        cut = browser.run(
            """[...document.querySelectorAll(".gpus i > *")].filter((label) => {
              const [own, box] = [label, label.parentElement].map((one) => one.getBoundingClientRect());
              if (parseFloat(getComputedStyle(label).fontSize) === 0) return false;
              return own.left < box.left || own.right > box.right || own.top < box.top || own.bottom > box.bottom;
            }).map((label) => label.parentElement.outerHTML)"""
        )
        assert cut == []
    shown = "[...document.querySelectorAll('.gpus b')].filter(b => parseFloat(getComputedStyle(b).fontSize)).length"
    assert browser.run(shown) > 0


def test_what_is_proven_is_explained_where_it_is_shown(browser, addresses):
    for page, proven in (("igniter-12", True), ("gpulet-game", False)):
        browser.open(addresses[page])
        text = browser.run("document.querySelector('.legend').textContent")
        assert ("proven" in text) == proven
        assert browser.run("document.body.textContent.includes('The bar under')")


def test_a_scheduler_stays_in_sight_while_its_line_is_scrolled(browser, addresses):
    browser.open(addresses["index"], width=360, height=740)
    lefts = browser.run(
        """[...document.querySelectorAll(".board .scroll")].map((scroll) => {
          scroll.scrollLeft = 10_000;
          const left = (one) => one.getBoundingClientRect().left;
          return [scroll.scrollLeft, left(scroll.querySelector("tbody th")) - left(scroll)];
        })"""
    )
    assert any(scrolled > 0 for scrolled, _ in lefts)
    assert all(0 <= left <= 60 for _, left in lefts)
    assert browser.run("document.querySelector('.board tbody tr').cells[2].querySelector('a').href").count("runs.html#")


def test_print_is_light_and_whole(browser, addresses, crowded):
    browser.open(addresses["igniter-12"])
    browser.run("theme.set('dark')")
    browser.ask("Emulation.setEmulatedMedia", media="print", features=[])
    style = "getComputedStyle(document.querySelector('{}')).{}"
    try:
        assert browser.run(style.format("body", "color")) == "rgb(27, 34, 40)"
        assert browser.run(style.format(".gpus i", "printColorAdjust")) == "exact"
        assert browser.run(style.format(".switches", "display")) != "none"
        browser.open(addresses["index"])
        browser.ask("Emulation.setEmulatedMedia", media="print", features=[])
        assert browser.run(style.format(".scroll", "overflowX")) == "visible"
        browser.open(crowded["index"])
        browser.ask("Emulation.setEmulatedMedia", media="print", features=[])
        assert browser.run("document.querySelector('#leaderboard tbody tr:last-child').checkVisibility()")
    finally:
        browser.ask("Emulation.setEmulatedMedia", media="", features=[])
        browser.run("theme.set('system')")


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of a report with twenty variants of a scheduler."""
    folder = tmp_path_factory.mktemp("crowded")
    row = run_of(IGniter(), TWELVE, **BOUND)
    with Ledger(folder / "crowded.sqlite", create=True) as ledger:
        for number in range(20):
            ledger.add(replace(row, key=f"{number:064x}", parameters={"igniter": {"variant": number}}), TWELVE)
    assert main(["report", str(folder / "crowded.sqlite"), "-o", str(folder / "site")]) == 0
    return {path.name.rpartition("-")[0] or path.stem: path.as_uri() for path in (folder / "site").rglob("*.html")}


def test_long_lists_show_their_beginning_until_all_is_asked_for(browser, crowded):
    visible = "[...document.querySelectorAll('{}')].filter(one => one.checkVisibility()).map(one => one.dataset.name)"
    for page, items in (("index", "#leaderboard tbody tr"), ("igniter-12", ".plan")):
        browser.open(crowded[page])
        shown = visible.format(items)
        assert len(browser.run(shown)) == 12
        type_into(browser, "[data-key=name]", "variant=1")
        assert len(browser.run(shown)) == 11  # 1 and 10 to 19: of what is asked for, all
        type_into(browser, "[data-key=name]", "")
        browser.run("document.querySelector('.more').click()")
        assert len(browser.run(shown)) == 20
        browser.run("document.querySelector('.more').click()")
        assert len(browser.run(shown)) == 12
        assert browser.complaints == []


def test_of_many_series_the_first_are_drawn(browser, crowded):
    browser.open(crowded["igniter-12"])
    names = "[...document.querySelectorAll('#latency-chart .series[data-name]')].map(g => g.dataset.name)"
    assert len(browser.run(names)) == 8
    for button, count in (("None", 0), ("All", 20)):
        browser.run(
            f"[...document.querySelectorAll('#latency-chart button')].find(b => b.innerText === '{button}').click()"
        )
        assert len(browser.run(names)) == count


def test_variants_of_a_scheduler_look_different(browser, crowded):
    browser.open(crowded["igniter-12"])
    looks = browser.run(
        """[...document.querySelectorAll("#latency-chart .sample")]
          .map(one => [one.getAttribute("class"), one.querySelector("line").getAttribute("stroke-dasharray")].join())"""
    )
    assert len(looks) == 20
    assert len(set(looks[:12])) == 12
    drawn = "[...document.querySelectorAll('#latency-chart .series[data-name]')]"
    dashes = browser.run(f"{drawn}.map(g => g.querySelector('path').getAttribute('stroke-dasharray'))")
    fills = browser.run(f"{drawn}.map(g => getComputedStyle(g.querySelector('use')).fill)")
    assert len({*zip(dashes, fills, strict=True)}) == len(dashes) == 8


def test_latencies_of_one_workload_can_be_looked_at(browser, addresses):
    browser.open(addresses["igniter-12"])
    type_into(browser, "#latency-workload", "0")
    assert "SLO 10 ms" in browser.run("document.getElementById('latency-chart').textContent")


def test_the_scaling_chart_follows_its_choices(browser, addresses):
    browser.open(addresses["index"])
    text = "document.querySelector('#scaling-chart svg').textContent"
    assert "Decision time (s)" in browser.run(text)
    type_into(browser, "#scaling-metric", "late_pct")
    assert "Requests not in time (%)" in browser.run(text)
