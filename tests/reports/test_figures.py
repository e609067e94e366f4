"""The list of figures against those of the papers, and properties of every figure."""

import re
import subprocess
import sys

import pytest

from bench.evaluation import Trial
from bench.simulation.arrivals import Arrivals, Process
from instances import InputError
from instances.suites import SCENARIO_SUITES, SUITES
from reports.charts.page import STYLE
from reports.need import Need, NothingToDrawError
from reports.papers import figure, figure_names, figures_not_drawn
from tests.reports.figure_names import OF_COURSES, OF_LIBRARY, OF_MEASUREMENTS, OF_MODELS, OF_TRAININGS, OURS
from tests.reports.stated import stated

NAMES = figure_names()
WITHOUT_RUNS = (*OF_COURSES, *OF_LIBRARY, *OF_MEASUREMENTS, *OF_MODELS, *OF_TRAININGS, "model-error")
FROM_RUNS = [name for name in NAMES if name not in WITHOUT_RUNS]
PLAN_FIGURES = ["igniter-fig14", "igniter-fig18", "igniter-fig21"]

PAPERS = {
    "igniter": ("iGniter", 21, 4, 2),
    "inss": ("InSS", 19, 4, 1),
    "gpulet": ("gpulet ATC'22", 17, 5, 2),
    "gpulet-arxiv": ("gpulet arXiv'21", 16, 5, 1),
    "mediator": ("MediatorDNN", 9, 5, 3),
}
"""Title of each paper, and the numbers of its last figure, table and algorithm."""

ROMAN = ("I", "II", "III", "IV", "V")


def where(paper: str, kind: str, number: int) -> str:
    """Return a paper's title with the name of one of its figures, tables or algorithms."""
    words = {"fig": "Fig.", "table": "Table", "alg": "Alg."}
    numeral = ROMAN[number - 1] if (paper, kind) == ("mediator", "table") else number
    return f"{PAPERS[paper][0]}, {words[kind]} {numeral}"


def test_every_figure_table_and_algorithm_of_the_papers_is_drawn_or_has_a_reason(subtests):
    listed = {**{drawn: figure(drawn) for drawn in NAMES}, **figures_not_drawn()}
    for paper, (_, *last) in PAPERS.items():
        for kind, last_number in zip(("fig", "table", "alg"), last, strict=True):
            for number in range(1, last_number + 1):
                name = f"{paper}-{kind}{number}"
                with subtests.test(name):
                    with_this_name = {
                        listed_name: listed_figure
                        for listed_name, listed_figure in listed.items()
                        if listed_name == name or listed_name.startswith(f"{name}-")
                    }
                    assert name in with_this_name
                    for listed_figure in with_this_name.values():
                        assert re.match(rf"{re.escape(where(paper, kind, number))}\b", listed_figure.paper)


def test_all_other_listed_figures_are_our_own():
    places = re.compile(rf"({'|'.join(sorted(PAPERS, key=len, reverse=True))})-(fig|table|alg)(\d+)(-[a-z]+)?")
    for name in [*NAMES, *figures_not_drawn()]:
        if name not in OURS:
            paper, kind, number, _ = places.fullmatch(name).groups()
            assert 1 <= int(number) <= dict(zip(("fig", "table", "alg"), PAPERS[paper][1:], strict=True))[kind]
    assert set(OURS) < set(NAMES)
    assert not set(NAMES) & set(figures_not_drawn())


def test_figures_that_are_not_drawn_have_a_reason_of_one_sentence():
    for name, not_drawn in figures_not_drawn().items():
        for text in (not_drawn.title, not_drawn.paper, not_drawn.reason):
            assert text == text.strip(" .") != ""
            assert "\n" not in text
        with pytest.raises(NothingToDrawError, match=rf"^{name}: not drawn: {re.escape(not_drawn.reason)}$"):
            figure(name)


def test_commands_in_reasons_name_instances_that_exist():
    instance_names = {instance.name for suite in SUITES.values() for instance in suite.build()}
    named_instances = {
        named_instance
        for each in figures_not_drawn().values()
        for named_instance in re.findall(r"bench show ([\w-]+)", each.reason)
    }
    assert named_instances
    assert named_instances <= instance_names


def test_listed_names_are_sorted_and_equal_the_figures_names():
    assert sorted(NAMES) == NAMES
    assert [figure(name).name for name in NAMES] == NAMES
    assert [name for name in NAMES if not figure(name).needs] == sorted(WITHOUT_RUNS)


def test_the_error_of_a_misspelt_name_has_the_nearest_name():
    with pytest.raises(InputError, match=r'bench figures: unknown figure "ignitr-fig21"; did you mean "igniter-fig21"'):
        figure("ignitr-fig21", "bench figures")


def test_the_error_of_an_empty_name_has_all_names():
    with pytest.raises(InputError, match=f"known: {', '.join(NAMES)}"):
        figure("")


def test_the_nearest_name_may_be_of_a_figure_that_is_not_drawn():
    with pytest.raises(InputError, match='did you mean "mediator-table5"'):
        figure("mediatr-table5")


def test_listing_and_describing_figures_does_not_load_matplotlib():
    code = (
        "import sys; from reports.papers import figure, figure_names;"
        "titles = [figure(name).title for name in figure_names()];"
        "assert all(titles);"
        "assert 'matplotlib' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_figure_has_a_title_a_paper_and_descriptions(subtests):
    for name in NAMES:
        described = figure(name)
        with subtests.test(name):
            for text in (described.title, described.paper, described.shows, described.look_for, described.cost):
                assert text == text.strip() != ""
                assert "  " not in text


def test_figures_need_instances_that_exist(subtests):
    names = {*SUITES, *SCENARIO_SUITES, *(instance.name for suite in SUITES.values() for instance in suite.build())}
    for name in NAMES:
        with subtests.test(name):
            for need in figure(name).needs:
                named = [text for text in (need.instances, need.quick) if text]
                assert {part for text in named for part in text.split(",")} <= names
                assert need.schedulers
                assert need.seeds


def test_without_rows_the_error_has_the_commands_to_run(subtests, tmp_path):
    for name in FROM_RUNS:
        with (
            subtests.test(name),
            pytest.raises(
                NothingToDrawError, match=rf"{name}: no run to draw; .*bench (run|max-rate) --instances .* --seeds? 0"
            ),
        ):
            figure(name).draw([], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_rows_of_other_instances_do_not_count(subtests, make_row, tmp_path):
    for name in FROM_RUNS:
        if figure(name).any_runs:
            continue
        need = figure(name).needs[0]
        same = make_row(need.schedulers[0], "igniter-mix-10-s0", instance_hash="0" * 64, parameters=stated(need))
        with subtests.test(name), pytest.raises(NothingToDrawError, match="no run to draw"):
            figure(name).draw([make_row(instance="smoke-goodput"), same], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_same_rows_give_the_same_bytes(make_row, two_gpus, tmp_path):
    drawn = []
    for folder in ("first", "second"):
        files = figure("igniter-fig14").draw([make_row(plan=two_gpus)], tmp_path / folder)
        drawn.append([file.read_bytes() for file in files])
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("name", PLAN_FIGURES)
def test_with_failed_runs_only_the_error_names_them(name, make_row, draw):
    instance = "igniter-12" if name != "igniter-fig21" else "igniter-mix-50-s0"
    failed = make_row("mine@igniter", instance, termination="memory_limit", status="unknown")
    refused = make_row("ffd+", instance, status="infeasible")
    refused_timed = refused if name != "igniter-fig21" else make_row("ffd+", instance, termination="crashed")
    with pytest.raises(NothingToDrawError) as error:
        draw(name, [failed, refused_timed])
    message = str(error.value)
    not_run = "gslice+, igniter, ffd++, cpsat, gpu-lets+" if name == "igniter-fig18" else "igniter, ffd++, cpsat"
    assert message.startswith(f"{name}: no run has a result to draw. Not run: {not_run}.")
    assert f"mine@igniter (memory limit) on {instance}" in message
    assert f"ffd+ ({'infeasible' if refused_timed is refused else 'crashed'}) on {instance}" in message


def test_a_file_in_place_of_the_output_folder_is_refused(make_row, two_gpus, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=r"taken: cannot be written: File exists"):
        figure("igniter-fig14").draw([make_row(plan=two_gpus)], tmp_path / "taken")


def test_a_need_has_the_command_of_its_runs():
    need = Need("smoke", ("igniter", "ffd+"), (0, 1))
    assert need.command == "bench run --instances smoke --schedulers igniter,ffd+ --seeds 0,1"
    with_trial = Need("smoke", ("igniter",), trial=Trial(1.1, "hybrid", 0.2, Arrivals(Process.CONSTANT)))
    options = "--arrivals constant --headroom 1.1 --truth hybrid --error 0.2"
    assert with_trial.command == f"bench run --instances smoke --schedulers igniter --seeds 0 {options}"
    assert Need("smoke", ("igniter",), trial=Trial()).command.endswith(" --seeds 0 --simulate off")
    climb = Need("4gpu", ("igniter",), parameters=("igniter.spend_spare=false",), climb=True)
    options = "--seed 0 --param igniter.spend_spare=false"
    assert climb.command == f"bench max-rate --instances 4gpu --schedulers igniter {options}"


def test_the_style_file_is_in_the_package():
    assert STYLE.is_file()
