"""The report as a browser shows it: it loads, sorts, filters, draws, and everybody can use it."""

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from instances.files import plan_from_json, plan_to_json
from reports.placement import pieces
from tests.reports.page.browser import CHROMIUM, Browser
from tests.reports.page.runs_made_here import TWELVE

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


def choose(browser, key, value):
    browser.run(
        f"""(() => {{ const input = document.querySelector("#leaderboard [data-key={key}]");
        input.value = {json.dumps(value)}; input.dispatchEvent(new Event("input", {{ bubbles: true }})); }})()"""
    )


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


def test_latencies_of_one_workload_can_be_looked_at(browser, addresses):
    browser.open(addresses["igniter-12"])
    browser.run(
        "(() => { const s = document.getElementById('latency-workload'); s.value = '0';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert "SLO 10 ms" in browser.run("document.getElementById('latency-chart').textContent")


def test_the_scaling_chart_follows_its_choices(browser, addresses):
    browser.open(addresses["index"])
    text = "document.querySelector('#scaling-chart svg').textContent"
    assert "Decision time (s)" in browser.run(text)
    browser.run(
        "(() => { const s = document.getElementById('scaling-metric'); s.value = 'late_pct';"
        " s.dispatchEvent(new Event('change')); })()"
    )
    assert "Requests not in time (%)" in browser.run(text)
