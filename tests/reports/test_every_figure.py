"""Every figure from a small ledger and a few measurements: three files, no empty axes, looks that differ in grey.

None is drawn empty: without results it says so.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, count, pairwise
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Page
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from bench.ledger.row import Row, Termination, columns
from bench.max_rate import Climb, with_all_served
from bench.scenarios import pack
from instances import Instance, ScenarioSet
from instances.suites import SCENARIO_SUITES, SUITES
from reports.figure import Figure, Need, NothingToDrawError
from reports.figures import figure, figure_names
from reports.measured import VARIABLE
from reports.palette import QUIET, lightness

STEP = 8.0
"""Of CIE L*, in which black and white are 100 apart: neighbours that differ by this do so in a grey print."""

INSTANCES = {instance.name: instance for suite in SUITES.values() for instance in suite.build()}

BLANK = {column.name: None for column in columns()} | {
    "parameters": {},
    "source": "plan",
    "status": "feasible",
    "termination": Termination.FINISHED,
    "violation_details": [],
    "decision_s": 0.01,
    "peak_memory_mb": 200.0,
    "time_limit_s": 10.0,
    "threads": 1,
}


def plan_of(instance: Instance) -> dict[str, Any]:
    """Return a plan with a GPU for each workload or job."""
    gpu = instance.gpus[0].type
    rates = {each.id: each.rate_rps for each in instance.workloads} or {job.id: 1.0 for job in instance.jobs}
    gpulets = [
        {
            "share_units": gpu.share_units if instance.jobs else gpu.share_units // 2,
            "duty_cycle_ms": None,
            "slots": [{"workload": name, "batch": 2, "rate_rps": rate}],
        }
        for name, rate in rates.items()
    ]
    return {
        "version": 1,
        "instance": instance.name,
        "gpus": [{"type": gpu.name, "gpulets": [gpulet]} for gpulet in gpulets],
    }


def simulation_of(instance: Instance, need: Need, late: float) -> dict[str, Any] | None:
    if need.trial.arrivals is None:
        return None
    served = {"requests": 3000, "dropped": 10, "unfinished": 0, "mean_ms": 5.0, "violation_rate": late}
    workloads = [{"id": workload.id, "slo_ms": workload.slo_ms, **served} for workload in instance.workloads]
    return {"arrivals": need.trial.arrivals.label, "workloads": workloads, "applications": []}


def stated(need: Need) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for text in need.parameters:
        name, _, value = text.partition("=")
        scheduler, _, field = name.rpartition(".")
        found.setdefault(scheduler, {})[field] = json.loads(value) if value in ("true", "false") else value
    return found


def instances_named(need: Need) -> Iterator[Instance]:
    for name in (need.quick or need.instances).split(","):
        yield from SUITES[name].build() if name in SUITES else (INSTANCES[name],)


def rows_of(chosen: Figure) -> list[Row]:
    """Return a row of every run that a figure needs at a first look; they differ a little."""
    keys = count()

    def made(instance: Instance, need: Need, scheduler: str, seed: int, **given: Any) -> Row:
        number = next(keys)
        worse = 1.0 + need.schedulers.index(scheduler) / 10.0 + number % 3 / 100.0
        late = 0.004 * worse
        bound = {"value": 4.59, "feasible": True, "bound": 4.59, "bound_certified": True}
        found = {
            "key": str(number),
            "instance": instance.name,
            "instance_hash": instance.fingerprint,
            "scheduler": scheduler,
            "parameters": stated(need),
            "seed": seed,
            "headroom": need.trial.headroom,
            "truth": need.trial.reality,
            "objective": "cost" if instance.objective.minimised else "throughput",
            "value": 6.12 * worse if instance.objective.minimised else 100.0 / worse,
            "feasible": True,
            "violations": 0,
            "gpus_used": 6,
            "cost_per_hour": 18.36 * worse,
            "throughput_rps": 900.0 / worse,
            "fragments_pct": 20.0 * worse,
            "over_capacity_pct": 2.0 * worse,
            "decision_s": 0.002 * worse,
            "sim_goodput_rps": 700.0 / worse,
            "sim_violation_rate": late,
            "sim_drop_rate": late / 4.0,
            "sim_violating": 1,
            "simulation": simulation_of(instance, need, late),
            "trajectory": [{"t_s": 0.001 * worse, **bound, "value": 9.18}, {"t_s": 0.1 * worse, **bound}],
            "bound": 4.59,
            "bound_certified": True,
            "statistics": {
                f"pwl_error_{which}_{name}": 0.2 * worse * part
                for which, part in (("max", 1.0), ("mean", 0.3))
                for name in ("k_act", "ability")
            },
            "plan": plan_of(instance),
        }
        return Row(**(BLANK | found | given))

    rows = []
    for need in chosen.needs:
        name = need.quick or need.instances
        for scheduler in need.schedulers:
            if name in SCENARIO_SUITES:
                rows.append(made_set(SCENARIO_SUITES[name].build(), need, scheduler, made))
                continue
            for instance in instances_named(need):
                if need.climb:
                    rows += climbed(instance, need, scheduler, made)
                else:
                    rows += [made(instance, need, scheduler, seed) for seed in need.seeds]
    return rows


def made_set(scenarios: ScenarioSet, need: Need, scheduler: str, made: Callable[..., Row]) -> Row:
    accepted = [index % 2 == 0 for index in range(len(scenarios))]
    served = [index % 4 == 0 for index in range(len(scenarios))]
    counts = {"count": len(scenarios), "decided": len(scenarios), "accepted": sum(accepted), "served": sum(served)}
    bits = {"accepted_bits": pack(accepted), "served_bits": pack(served)}
    hashed = {"instance_hash": scenarios.fingerprint, "objective": "scenarios", "scenarios": counts | bits}
    return made(scenarios.base, need, scheduler, 0, **hashed, value=float(sum(served)))


def climbed(instance: Instance, need: Need, scheduler: str, made: Callable[..., Row]) -> list[Row]:
    one = Climb(with_all_served(instance))
    while (multiple := one.next) is not None:
        planned = {} if multiple < 2.0 else {"plan": None}
        one.take(multiple, made(one.instance.scaled(multiple), need, scheduler, 0, **planned))
    return list(one.rows.values())


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory, few_measurements: Path) -> Callable[[str], tuple[Page, list[Path]]]:
    """Draw a figure, once, and return its page and its files."""
    known: dict[str, tuple[Page, list[Path]]] = {}
    folder = tmp_path_factory.mktemp("figures")

    def draw(name: str) -> tuple[Page, list[Path]]:
        if name not in known:
            pages = []
            with pytest.MonkeyPatch.context() as patch:
                as_it_is = Page.savefig

                def saved(page: Page, *given: Any, **options: Any) -> None:
                    pages.append(page)
                    as_it_is(page, *given, **options, dpi=40)  # coarse, for speed

                patch.setattr(Page, "savefig", saved)
                patch.setenv(VARIABLE, str(few_measurements))
                chosen = figure(name)
                files = chosen.draw(rows_of(chosen), folder)
            known[name] = pages[0], files
        return known[name]

    return draw


NO_RESULT = {column.name: None for column in columns() if column.name.startswith("sim_")} | {
    **dict.fromkeys(("value", "feasible", "bound", "bound_certified", "violations", "gpus_used", "cost_per_hour")),
    **dict.fromkeys(("throughput_rps", "fragments_pct", "over_capacity_pct", "decision_s", "peak_memory_mb")),
    **dict.fromkeys(("plan", "simulation", "scenarios")),
    "status": "unknown",
    "termination": Termination.CRASHED,
    "trajectory": [],
}


@pytest.mark.parametrize("name", [name for name in figure_names() if figure(name).needs])
def test_none_is_drawn_empty(name: str, tmp_path: Path) -> None:
    chosen = figure(name)
    with pytest.raises(NothingToDrawError, match=rf"^{name}: no "):
        chosen.draw([replace(row, **NO_RESULT) for row in rows_of(chosen)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def visible(page: Page) -> list[Axes]:
    return [ax for ax in page.axes if ax.axison and ax.get_visible()]


@pytest.mark.parametrize("name", figure_names())
def test_it_is_written_as_pdf_svg_and_png(name: str, drawn: Callable[[str], tuple[Page, list[Path]]]) -> None:
    _, files = drawn(name)
    assert [file.name for file in files] == [f"{name}.{suffix}" for suffix in ("pdf", "svg", "png")]
    pdf, svg, png = (file.read_bytes() for file in files)
    assert (pdf[:5], svg[:5], png[1:4]) == (b"%PDF-", b"<?xml", b"PNG")
    assert b"/CIDFontType2" in pdf  # TrueType, which printers and editors take
    assert svg.count(b"<text") > 5  # text that can be searched and edited
    assert b"mathdefault" not in svg
    assert b"CreationDate" not in pdf
    assert b"<dc:date>" not in svg


@pytest.mark.parametrize("name", figure_names())
def test_no_axes_are_empty_and_all_have_labels(name: str, drawn: Callable[[str], tuple[Page, list[Path]]]) -> None:
    page, _ = drawn(name)
    assert visible(page) or page.axes[0].tables
    for ax in visible(page):
        shown = [line for line in ax.lines if len(line.get_xdata()) > 0]
        assert shown or ax.patches or ax.collections or ax.tables or ax.texts, "empty axes"
        for axis in (ax.xaxis, ax.yaxis):
            ticks = [tick for tick in axis.get_ticklabels() if tick.get_visible() and tick.get_text()]
            if ticks and axis.get_visible():
                numbers = all(tick.get_text().strip("−-.,0123456789eE×%kM ") == "" for tick in ticks)
                shared = any(other.get_ylabel() for other in visible(page)) if axis is ax.yaxis else True
                assert axis.get_label_text() or not numbers or shared, f"numbers without a label: {axis}"


@pytest.mark.parametrize("name", figure_names())
def test_neighbours_differ_in_a_grey_print(name: str, drawn: Callable[[str], tuple[Page, list[Path]]]) -> None:
    page, _ = drawn(name)
    for ax in visible(page):
        bars = sorted((bar for bar in ax.patches if isinstance(bar, Rectangle)), key=lambda bar: bar.get_x())
        for left, right in pairwise(bars):
            touching = abs(left.get_x() + left.get_width() - right.get_x()) < 0.02 * abs(left.get_width())
            if touching and abs(left.get_y() - right.get_y()) < 1e-9:
                assert bar_differs(left, right), (left, right)
        lines = [line for line in ax.lines if len(line.get_xdata()) > 1 and line.get_linestyle() != "None"]
        lines = [line for line in lines if to_hex(line.get_color()).upper() != QUIET]  # guides
        for one, other in combinations(lines, 2):
            assert line_differs(one, other), (one.get_color(), other.get_color())


def grey(colour: Any) -> float:
    return lightness(to_hex(colour))


def bar_differs(one: Rectangle, other: Rectangle) -> bool:
    same = one.get_facecolor() == other.get_facecolor()
    apart = abs(grey(one.get_facecolor()) - grey(other.get_facecolor())) >= STEP
    return same or apart or one.get_hatch() != other.get_hatch()


def line_differs(one: Line2D, other: Line2D) -> bool:
    same = one.get_color() == other.get_color()
    apart = abs(grey(one.get_color()) - grey(other.get_color())) >= STEP
    looks = [(line.get_linestyle(), line.get_marker()) for line in (one, other)]
    return same or apart or looks[0] != looks[1]
