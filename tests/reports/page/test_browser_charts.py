"""Plans and charts of the report in a browser: they are drawn right, say what is pointed at, and are saved."""

import json

import pytest

from instances.files import plan_to_json
from reports.placement import pieces
from tests.reports.page.browser import type_into
from tests.reports.page.runs_made_here import TWELVE


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
    slot = row.plan.gpus[0].gpulets[0].slots[0]
    told = browser.run("document.getElementById('tip').innerText")
    model = next(one.model for one in TWELVE.workloads if one.id == slot.workload)
    assert told.startswith(f"{slot.workload} · {model}")
    assert f"batch {slot.batch}" in told
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
        assert json.loads(text) == json.loads(json.dumps(plan_to_json(row.plan, instance)))


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
