"""The list of figures, and what holds for every one of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.simulation.arrivals import Arrivals, Process
from bench.trial import Trial
from instances import InputError
from instances.suites import SCENARIO_SUITES, SUITES
from reports.figure import Need
from reports.figures import figure, figure_names
from tests.reports.figure_names import OF_COURSES, OF_MODELS, OF_TRAININGS

PAPERS = ["igniter-fig14", "igniter-fig18", "igniter-fig21"]
VARIANTS = [
    "gpulet-arxiv-fig16",
    "gpulet-fig17",
    "gpulet-fig6",
    "igniter-fig19",
    "igniter-fig20",
    "inss-fig15",
    "inss-fig18",
    "inss-fig19",
    "inss-fig3",
    "inss-fig4",
]
OF_SETS = ["gpulet-arxiv-fig15", "gpulet-arxiv-fig4", "gpulet-fig16", "gpulet-fig5"]
OF_SIMULATIONS = [
    "gpulet-arxiv-fig12",
    "gpulet-arxiv-fig13",
    "gpulet-fig13",
    "gpulet-fig14",
    "igniter-fig14-violations",
    "inss-fig10",
    "inss-fig12",
    "inss-fig13",
    "inss-fig14",
    "inss-fig16",
    "inss-fig17",
    "robustness",
]
OF_CONTESTS = ["critical-difference", "performance-profiles", "primal-integral"]
DRAWN_FROM_RUNS = [
    *("exact-gap", "exact-scaling", "mediator-fig8", "mediator-fig9"),
    *PAPERS,
    *VARIANTS,
    *OF_SIMULATIONS,
]
NAMES = sorted([*DRAWN_FROM_RUNS, *OF_CONTESTS, *OF_COURSES, *OF_MODELS, *OF_SETS, *OF_TRAININGS])
INSTANCE = {
    "exact-gap": "64gpu-cost",
    "exact-scaling": "exact-10-s0",
    "igniter-fig14": "igniter-12",
    "igniter-fig18": "igniter-12",
    "igniter-fig21": "igniter-mix-50-s0",
    "mediator-fig8": "mediator-40-s0",
    "mediator-fig9": "mediator-40-s0",
    "gpulet-arxiv-fig16": "gpulet-equal",
    "gpulet-fig17": "gpulet-scen1",
    "gpulet-fig6": "gpulet-pair1",
    "igniter-fig19": "igniter-12",
    "igniter-fig20": "igniter-12-t4",
    "gpulet-arxiv-fig12": "gpulet-equal",
    "gpulet-arxiv-fig13": "gpulet-equal",
    "gpulet-fig13": "gpulet-scen1",
    "gpulet-fig14": "gpulet-scen1",
    "igniter-fig14-violations": "igniter-12",
    "inss-fig10": "4gpu",
    "inss-fig12": "4gpu",
    "inss-fig13": "4gpu",
    "inss-fig14": "4gpu",
    "inss-fig16": "inss-64gpu",
    "inss-fig17": "inss-64gpu",
    "robustness": "64gpu-cost",
    "inss-fig15": "4gpu",
    "inss-fig18": "inss-64gpu",
    "inss-fig19": "inss-8gpu",
    "inss-fig3": "4gpu",
    "inss-fig4": "4gpu",
}


def test_every_file_in_the_folder_is_a_figure_of_that_name():
    assert figure_names() == NAMES
    assert [figure(name).name for name in NAMES] == NAMES


def test_a_mistyped_name_gets_the_nearest():
    with pytest.raises(InputError, match=r'bench figures: unknown figure "ignitr-fig21"; did you mean "igniter-fig21"'):
        figure("ignitr-fig21", "bench figures")


def test_a_name_unlike_any_gets_them_all():
    with pytest.raises(InputError, match=f"known: {', '.join(NAMES)}"):
        figure("")


def test_neither_listing_nor_describing_figures_loads_what_draws_and_simulates():
    code = (
        "import sys; from reports.figures import figure, figure_names;"
        "names = figure_names();"
        "assert not [m for m in sys.modules if m.startswith('reports.figures.')], 'listing imports no figure';"
        "titles = [figure(name).title for name in names];"
        "assert all(titles);"
        "assert not {'matplotlib', 'numba', 'scipy'} & set(sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_says_what_it_shows_and_costs(name):
    described = figure(name)
    for text in (described.title, described.paper, described.shows, described.look_for, described.cost):
        assert text == text.strip() != ""
        assert "  " not in text


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_needs_instances_that_exist(name):
    known = {*SUITES, *SCENARIO_SUITES, *(instance.name for suite in SUITES.values() for instance in suite.build())}
    for need in figure(name).needs:
        named = [text for text in (need.instances, need.quick) if text]
        assert {part for text in named for part in text.split(",")} <= known
        assert need.schedulers
        assert need.seeds


@pytest.mark.parametrize("name", [*DRAWN_FROM_RUNS, *OF_CONTESTS, *OF_SETS])
def test_without_rows_it_says_what_to_run(name, tmp_path):
    with pytest.raises(InputError, match=rf"{name}: no run to draw; .*bench run --instances .* --seeds 0"):
        figure(name).draw([], tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [*DRAWN_FROM_RUNS, *OF_CONTESTS, *OF_SETS])
def test_rows_of_other_instances_do_not_count(name, make_row, stated, tmp_path):
    need = figure(name).needs[0]
    same_name = make_row(need.schedulers[0], "igniter-mix-10-s0", instance_hash="0" * 64, parameters=stated(need))
    with pytest.raises(InputError, match="no run to draw"):
        figure(name).draw([make_row(instance="smoke-goodput"), same_name], tmp_path)


# One way to write all of them: a sample is enough every time.
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.soak] if k % 8 else []) for k, n in enumerate(DRAWN_FROM_RUNS)]
)
def test_three_files_with_searchable_text_and_no_dates(name, make_row, stated, tmp_path):
    need = figure(name).needs[0]
    figures = {"decision_s": 0.01, "trajectory": [], "objective": "cost", "value": 183.6, "feasible": True}
    row = make_row(need.schedulers[0], INSTANCE[name], parameters=stated(need), fragments_pct=5.0, **figures)
    files = figure(name).draw([row], tmp_path / "new" / "folder")
    assert [file.name for file in files] == [f"{name}.pdf", f"{name}.svg", f"{name}.png"]
    pdf, svg, png = (file.read_bytes() for file in files)
    assert pdf.startswith(b"%PDF")
    assert b"/CIDFontType2" in pdf  # TrueType, which printers and editors take
    assert b"CreationDate" not in pdf
    assert svg.count(b"<text") > 5
    assert b"<dc:date>" not in svg
    assert png.startswith(b"\x89PNG")


def test_the_same_rows_give_the_same_bytes(make_row, two_gpus, tmp_path):
    drawn = []
    for folder in ("first", "second"):
        files = figure("igniter-fig14").draw([make_row(plan=two_gpus)], tmp_path / folder)
        drawn.append([file.read_bytes() for file in files])
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("name", PAPERS)
def test_failed_runs_alone_are_named(name, make_row, draw):
    instance = "igniter-12" if name != "igniter-fig21" else "igniter-mix-50-s0"
    failed = make_row("mine@igniter", instance, termination="memory_limit", status="unknown")
    refused = make_row("ffd+", instance, status="infeasible")
    refused_timed = refused if name != "igniter-fig21" else make_row("ffd+", instance, termination="crashed")
    note = " ".join(draw(name, [failed, refused_timed]).get_supxlabel().split())
    assert "Not run: igniter, ffd++, cpsat." in note
    assert f"mine@igniter (memory limit) on {instance}" in note
    assert f"ffd+ ({'infeasible' if refused_timed is refused else 'crashed'}) on {instance}" in note


def test_a_folder_that_is_a_file_is_refused(make_row, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=r"taken: cannot be written: File exists"):
        figure("igniter-fig14").draw([make_row()], tmp_path / "taken")


def test_a_need_names_its_command():
    need = Need("smoke", ("igniter", "ffd+"), (0, 1))
    assert need.command == "bench run --instances smoke --schedulers igniter,ffd+ --seeds 0,1"
    tried = Need("smoke", ("igniter",), trial=Trial(1.1, "hybrid", 0.2, Arrivals(Process.CONSTANT)))
    options = "--arrivals constant --headroom 1.1 --truth hybrid --error 0.2"
    assert tried.command == f"bench run --instances smoke --schedulers igniter --seeds 0 {options}"
    assert Need("smoke", ("igniter",), trial=Trial()).command.endswith(" --seeds 0 --simulate off")
    climb = Need("4gpu", ("igniter",), parameters=("igniter.spend_spare=false",), climb=True)
    options = "--seed 0 --param igniter.spend_spare=false"
    assert climb.command == f"bench max-rate --instances 4gpu --schedulers igniter {options}"


def test_the_style_ships_with_the_package():
    assert Path(sys.modules["reports.figure"].__file__).with_name("style.mplstyle").is_file()
