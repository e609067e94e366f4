"""Plans and charts of the report in a browser: geometry, tooltips, switched-off series, and saved files."""

import csv
import json
from io import StringIO
from urllib.parse import unquote

import pytest

from instances.files import plan_to_json
from reports.page.curves import progress, reference
from reports.placement import pieces
from tests.reports.page.browser import type_into
from tests.reports.page.runs_made_here import TWELVE, case_of


def test_boxes_are_as_high_as_their_shares(browser, addresses, rows):
    browser.open(addresses["igniter-12"])
    for row, instance in rows[:3]:
        box = "const b = i.getBoundingClientRect(), g = i.parentElement.getBoundingClientRect()"
        box += ", pct = 100 / (g.height - 2)"  # a pixel of border above and below
        measure = f"{box}; return [i.textContent, pct * b.height, pct * (g.bottom - 1 - b.bottom)]"
        card = f"[...document.querySelectorAll('.plan')].find(c => c.innerHTML.includes('{row.key[:8]}'))"
        measured = browser.run(f"[...{card}.querySelectorAll('.gpus i')].map(i => {{ {measure} }})")
        expected = [(f"{p.workload} {p.batch}", p.share_pct, p.start_pct) for p in pieces(row, instance)]
        assert [text for text, _, _ in measured] == [text for text, _, _ in expected]
        for (_, share, start), (_, share_pct, start_pct) in zip(measured, expected, strict=True):
            assert share == pytest.approx(share_pct, abs=0.6)
            assert start == pytest.approx(start_pct, abs=0.6)


def test_slots_that_take_turns_are_side_by_side(browser, addresses, rows):
    (row, instance) = next((row, instance) for row, instance in rows if instance.name == "gpulet-game")
    turns = [piece.turns for piece in pieces(row, instance)]
    assert max(turns) > 1
    browser.open(addresses["gpulet-game"])
    widths = browser.run(
        "[...document.querySelectorAll('.gpus i')].map(i => i.offsetWidth / (i.parentElement.clientWidth))"
    )
    assert widths == pytest.approx([1.0 / n for n in turns], abs=0.06)


def slots(browser):
    """Return the lines of the table of slots, each as texts by column name."""
    table = "document.getElementById('slots')"
    heads = browser.run(f"[...{table}.tHead.rows[0].cells].map(head => head.textContent.trim())")
    lines = browser.run(f"[...{table}.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent))")
    return [dict(zip(heads, line, strict=True)) for line in lines]


def test_every_slot_has_a_line(browser, addresses, rows):
    browser.open(addresses["igniter-12"])
    key = browser.run("pageData('page-data').runs[0].key")
    row = next(row for row, _ in rows if row.key == key)
    listed = [slot for gpu in row.plan.gpus for gpulet in gpu.gpulets for slot in gpulet.slots]
    lines = slots(browser)[: len(listed)]
    assert {line["Scheduler"] for line in lines} == {browser.run("pageData('page-data').runs[0].name")}
    model_of = {workload.id: workload.model for workload in TWELVE.workloads}
    assert [(line["Workload"], line["Model"], int(line["Batch"])) for line in lines] == [
        (slot.workload, model_of[slot.workload], slot.batch) for slot in listed
    ]
    shares_pct = [piece.share_pct for piece in pieces(row, TWELVE)]
    assert [float(line["Share (%)"]) for line in lines] == pytest.approx(shares_pct)


def test_latencies_of_one_workload_can_be_selected_and_saved(browser, addresses, rows):
    browser.open(addresses["igniter-12"])
    type_into(browser, "#slot-filters [data-key=workload]", "W1")
    lines_shown = slots(browser)
    assert len(lines_shown) == 3  # a line for each plan
    assert {(line["Workload"], line["SLO (ms)"]) for line in lines_shown} == {("W1", "10")}
    rates = [100.0 * row.simulation["workloads"][0]["violation_rate"] for row, _ in rows[:3]]
    assert sorted(float(line["Not in time (%)"]) for line in lines_shown) == pytest.approx(sorted(rates), abs=1e-3)
    assert all(float(line["50 %"]) <= float(line["Longest"]) for line in lines_shown)
    browser.run("window.saved = []; saveFile = (name, text) => saved.push([name, text]); 0")
    browser.run("document.querySelector('#slot-filters [data-csv]').click()")
    ((name, text),) = browser.run("saved")
    assert name == "slots.csv"
    head, *lines = csv.reader(StringIO(text))
    assert len(lines) == 3
    assert set(lines[0]) > {"W1", "alexnet"}
    assert head[-2:] == ["served_pct", "longest_ms"]


@pytest.mark.parametrize("page", ["igniter-12", "gpulet-game"])
def test_a_plan_is_saved_as_the_plan_file_of_its_run(browser, addresses, rows, page):
    browser.open(addresses[page])
    browser.run("window.saved = []; saveFile = (name, text) => saved.push([name, text]); 0")
    browser.run("for (const one of document.querySelectorAll('[data-plan]')) one.click(); 0")
    saved = browser.run("saved")
    keys = browser.run("pageData('page-data').runs.map(run => run.key)")
    assert len(saved) == len(keys) >= 1
    for key, (name, text) in zip(keys, saved, strict=True):
        row, instance = next((row, instance) for row, instance in rows if row.key == key)
        assert name.endswith(f"{key[:12]}.json")
        assert json.loads(text) == json.loads(json.dumps(plan_to_json(row.plan, instance)))


def visible_series(browser, chart):
    """Return the number of visible series of a chart."""
    series = f"[...document.querySelectorAll('#{chart}-chart > svg .series')]"
    return browser.run(f"{series}.filter(one => getComputedStyle(one).display !== 'none').length")


def test_charts_have_tooltips_and_hide_series_that_are_switched_off(browser, addresses):
    browser.open(addresses["igniter-12"])
    for chart, kind in (("progress", "plan"), ("latency", "SLO"), ("measured", "W1")):
        assert visible_series(browser, chart) > 0, chart
        titles = browser.run(f"[...document.querySelectorAll('#{chart}-chart use title')].map(one => one.textContent)")
        assert any(kind in words for words in titles), chart
    before = [visible_series(browser, chart) for chart in ("progress", "latency")]
    browser.run("document.querySelector('#latency-chart .keys input').click()")
    assert [visible_series(browser, chart) for chart in ("progress", "latency")] == [before[0], before[1] - 1]
    browser.run("document.querySelector('#latency-chart .keys input').click()")
    assert visible_series(browser, "latency") == before[1]
    assert browser.console_messages == []


@pytest.mark.parametrize("page", ["index", "igniter-12", "library"])
def test_pictures_have_names_and_values(browser, addresses, page):
    browser.open(addresses[page])
    figures = "[...document.querySelectorAll('figure.chart')]"
    names = browser.run(f"{figures}.map(one => one.querySelector(':scope > svg[role=img]').getAttribute('aria-label'))")
    files = browser.run(f"{figures}.map(one => one.querySelector('a[download]').href)")
    assert len(names) == len(files) > 0
    assert all(names)
    assert all(decoded(file).count("\r\n") > 1 for file in files)


@pytest.mark.parametrize("page", ["index", "igniter-12", "library"])
def test_landmarks_have_unique_names(browser, addresses, page):
    browser.open(addresses[page])
    landmarks = "[...document.querySelectorAll('form[aria-label], nav[aria-label], section[aria-label]')]"
    names = browser.run(f"{landmarks}.map(one => one.localName + ' ' + one.getAttribute('aria-label'))")
    assert len(names) == len(set(names)) > 0


def decoded(address):
    return unquote(address.partition(",")[2])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_marks_are_centred_on_their_coordinates(browser, addresses, width, scheme):
    browser.open(addresses["igniter-12"], width=width, prefers_color_scheme=scheme)
    marks = browser.run(
        """[...document.querySelectorAll("figure.chart > svg")].flatMap((svg) => {
          const box = svg.getBoundingClientRect(), unit = box.width / svg.viewBox.baseVal.width;
          return [...svg.querySelectorAll(".series:not(.off) use")].map((one) => {
            const own = one.getBoundingClientRect();
            return [own.left + own.width / 2 - box.left - unit * one.x.baseVal.value,
              own.top + own.height / 2 - box.top - unit * one.y.baseVal.value, own.width];
          });
        })"""
    )
    assert len(marks) > 10
    assert [mark for mark in marks if max(map(abs, mark[:2])) > 1.5 or mark[2] < 5] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_pictures_are_legible(browser, addresses, width, scheme):
    """Texts of pictures are large enough, within the page, and have the colour of the page's text."""
    browser.open(addresses["igniter-12"], width=width, prefers_color_scheme=scheme)
    texts = browser.run(
        """[...document.querySelectorAll("figure.chart > svg text")].map((one) => {
          const box = one.getBoundingClientRect();
          return [one.textContent, box.left, box.right, box.height, getComputedStyle(one).fill];
        })"""
    )
    soft = browser.run("getComputedStyle(document.querySelector('.what')).color")
    assert len(texts) > 20
    for text, left, right, height, fill in texts:
        assert left >= -1, text
        assert right <= width + 1, text
        assert height >= 11, text
        assert fill == soft, text


def test_series_that_are_switched_off_stay_off(browser, addresses):
    browser.open(addresses["igniter-12"])
    browser.run("document.querySelector('#latency-chart .keys input').click()")
    still_visible = visible_series(browser, "latency")
    browser.open(addresses["index"])
    browser.back()
    assert visible_series(browser, "latency") == still_visible
    assert browser.console_messages == []


def test_csv_has_the_points_but_not_the_extension_of_lines_to_the_time_limit(browser, addresses, rows):
    browser.open(addresses["igniter-12"])
    address = browser.run("document.querySelector('#progress-chart a[download]').href")
    _, *lines = csv.reader(StringIO(decoded(address)))
    shown = [row for row, instance in rows if instance is TWELVE and row.plan is not None and row.source == "plan"]
    case = case_of(TWELVE, *shown)
    reference_value = reference(case)
    assert reference_value is not None
    curves = [(row.scheduler, progress(row, case, reference_value[0])) for row in shown]
    expected = [(name, "plan", *point) for name, kinds in curves for point in kinds["plans"]]
    expected += [(name, "certified bound", *point) for name, kinds in curves for point in kinds["bounds"]]
    assert sorted((name, kind, float(t_s), float(pct)) for name, kind, t_s, pct in lines) == sorted(expected)


def test_no_label_is_cut_by_its_box(browser, addresses):
    for page in ("igniter-12", "gpulet-game"):
        browser.open(addresses[page])
        cut_boxes = browser.run(
            """[...document.querySelectorAll(".gpus i > *")].filter((label) => {
              const [own, box] = [label, label.parentElement].map((one) => one.getBoundingClientRect());
              if (parseFloat(getComputedStyle(label).fontSize) === 0) return false;
              return own.left < box.left || own.right > box.right || own.top < box.top || own.bottom > box.bottom;
            }).map((label) => label.parentElement.outerHTML)"""
        )
        assert cut_boxes == []
    visible_labels = (
        "[...document.querySelectorAll('.gpus b')].filter(b => parseFloat(getComputedStyle(b).fontSize)).length"
    )
    assert browser.run(visible_labels) > 0


def test_the_legend_explains_proofs_only_on_pages_with_proofs(browser, addresses):
    for page, proven in (("igniter-12", True), ("gpulet-game", False)):
        browser.open(addresses[page])
        text = browser.run("document.querySelector('.legend').textContent")
        assert ("proven" in text) == proven
        assert browser.run("document.body.textContent.includes('The bar under')")


def test_of_many_series_the_first_are_drawn(browser, crowded):
    browser.open(crowded["igniter-12"])
    assert visible_series(browser, "latency") == 8
    for count in (20, 0):
        browser.run("document.querySelector('#latency-chart .keys input[value=\"\"]').click()")
        assert visible_series(browser, "latency") == count


def test_variants_of_a_scheduler_look_different(browser, crowded):
    browser.open(crowded["igniter-12"])
    looks = browser.run(
        """[...document.querySelectorAll("#latency-chart .sample")]
          .map(one => [one.getAttribute("class"), one.querySelector("path").getAttribute("stroke-dasharray")].join())"""
    )
    assert len(looks) == 20
    assert len(set(looks[:12])) == 12
    series = "[...document.querySelectorAll('#latency-chart > svg .series:not(.off)')]"
    dashes = browser.run(f"{series}.map(g => getComputedStyle(g.querySelector('path')).strokeDasharray)")
    fills = browser.run(f"{series}.map(g => getComputedStyle(g.querySelector('use')).fill)")
    assert len({*zip(dashes, fills, strict=True)}) == len(dashes) == 8


def test_the_scaling_chart_follows_its_choices(browser, addresses):
    browser.open(addresses["index"])
    text = "[...document.querySelectorAll('#scaling figure')].filter(one => !one.hidden).map(one => one.textContent)"
    (first,) = browser.run(text)
    assert "Decision time (s)" in first
    type_into(browser, "#scaling-metric", "late_pct")
    (second,) = browser.run(text)
    assert "Requests not in time (%)" in second
