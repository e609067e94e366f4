"""The example plugin: it installs, is listed, passes the checks, and runs."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.cli.app import main

EXAMPLES = Path(__file__).parents[2] / "examples"

Bench = Callable[[str], SimpleNamespace]


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install the example with the build tools of this environment, without the network."""
    folder = tmp_path_factory.mktemp("plugin")
    source = shutil.copytree(
        EXAMPLES / "plugin", folder / "source"
    )  # a copy, since the build writes into its source folder
    options = ["--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder / "site", source]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "site"))
        yield


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Run the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> SimpleNamespace:
        code = main(line.split())
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=printed.out, stderr=printed.err)

    return run


def test_the_plugin_is_listed_with_its_package(bench: Bench) -> None:
    (entry,) = [e for e in json.loads(bench("list schedulers --format json").stdout) if e["name"] == "worst-fit"]
    assert (entry["from"], entry["error"]) == ("worst-fit 1.0", None)
    assert entry["objectives"] == ["capacity", "cost"]
    assert [parameter["name"] for parameter in entry["parameters"]] == ["decreasing"]


def test_the_plugin_passes_the_checks(bench: Bench) -> None:
    done = bench("check-plugin worst-fit --format json")
    assert [finding for finding in json.loads(done.stdout) if not finding["passed"]] == []
    assert done.returncode == 0


def test_the_plugin_runs_beside_the_built_in_schedulers(bench: Bench) -> None:
    done = bench("run --instances 64gpu --schedulers worst-fit,igniter,ffd++ --simulate off --format json")
    assert done.returncode == 0, done.stderr
    rows = {(row["instance"], row["scheduler"]): row for row in json.loads(done.stdout)}
    instances = ("64gpu-cost", "64gpu-pool", "64gpu-capacity", "64gpu-goodput")
    assert rows.keys() == {*product(instances, ("worst-fit", "igniter", "ffd++"))}
    for instance in instances[:-1]:
        assert rows[instance, "worst-fit"]["feasible"], instance
    assert rows["64gpu-goodput", "worst-fit"]["termination"] == "skipped"
    assert rows["64gpu-cost", "worst-fit"]["gpus_used"] < rows["64gpu-cost", "igniter"]["gpus_used"]


def test_the_plugins_parameter_can_be_swept_and_a_misspelt_one_is_refused(bench: Bench) -> None:
    line = "run --instances igniter-12 --schedulers worst-fit --simulate off"
    shown = bench(f"{line} --param worst-fit.decreasing=yes,no").stdout
    assert "worst-fit[decreasing=true]" in shown
    assert "worst-fit[decreasing=false]" in shown
    assert 'did you mean "decreasing"?' in bench(f"{line} --param worst-fit.decreasin=no").stderr
    assert 'did you mean "worst-fit"?' in bench("run --instances smoke --schedulers worstfit").stderr


def test_the_example_experiment_runs(bench: Bench, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "examples", ignore=shutil.ignore_patterns("results", "plugin"))
    experiment = tmp_path / "examples/experiment.toml"
    done = bench(f"run {experiment} --seeds 0 --simulate off --format json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {row["instance"] for row in rows} >= {"igniter-12", "smoke-cost", "igniter-mix-6-s3"}
    assert len(rows) == 6 * (2 + 2)
    assert (tmp_path / "examples/results/example.sqlite").exists()
