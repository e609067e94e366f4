"""An installation without extras: solving and simulating work; commands that need an extra say how to install it."""

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.extras import how_to_install
from bench.replay.light_profile.points import Grid
from bench.replay.light_profile.run import profile
from tests.bench.replay.light_profile.fake_rig import FakeRig, profile_request

BLOCKED = ("torch", "gymnasium", "distributed", "pyarrow")

ROOT = Path(__file__).parents[2]

ON_A_BARE_GPU_HOST = (
    *("torch", "numpy", "numba", "scipy", "pandas", "typer", "rich", "jinja2", "pyyaml", "pydantic", "tomli-w"),
    "highspy",
)
"""Distributions of a GPU host without this project's environment, and the three that are easily brought there."""


@pytest.fixture
def without_extras(tmp_path: Path) -> dict[str, str]:
    """Environment in which importing a module of an extra fails, in every process."""
    for module in BLOCKED:
        (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError('blocked', name='{module}')\n")
    return os.environ | {"PYTHONPATH": str(tmp_path)}


def called(*arguments: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from bench.cli import main; sys.exit(main(sys.argv[1:]))", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd, check=False)


def test_solving_and_simulating_need_no_extra(without_extras: dict[str, str], tmp_path: Path) -> None:
    done = called("run", "--instances", "igniter-3", "--schedulers", "igniter,colgen", env=without_extras, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "optimal" in done.stdout


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("train ts --suite 4gpu --seed 0 -o out", 2, 'needs torch: pip install "gpushare-bench[rl]"'),
        ("run --instances 4gpu --schedulers ts", 1, 'needs torch: pip install "gpushare-bench[rl]"'),
        ("run --instances igniter-3 --cluster tcp://127.0.0.1:1", 2, 'pip install "gpushare-bench[cluster]"'),
    ],
)
def test_the_error_of_a_missing_extra_says_how_to_install_it(
    line: str, code: int, message: str, without_extras: dict[str, str], tmp_path: Path
) -> None:
    done = called(*line.split(), env=without_extras, cwd=tmp_path)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code


def test_a_missing_module_of_the_base_installation_has_a_hint() -> None:
    assert (
        how_to_install(ModuleNotFoundError("no", name="ortools.sat")) == 'needs ortools: pip install "gpushare-bench"'
    )


def test_a_module_of_no_extra_has_no_hint() -> None:
    assert how_to_install(ModuleNotFoundError("nothing", name="nothing")) is None


def outside(distributions: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return installed modules and distributions except these distributions and those that they require."""
    allowed, open_names = {"gpushare-bench"}, set(distributions)
    while open_names:
        name = open_names.pop()
        allowed.add(name)
        try:
            requirements = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # required on other systems only
            continue
        needed = {re.split(r"[^A-Za-z0-9._-]", each)[0] for each in requirements if "extra ==" not in each}
        open_names |= {normalised(each) for each in needed} - allowed
    owners_of = importlib.metadata.packages_distributions()
    modules = {module for module, owners in owners_of.items() if not allowed & {normalised(owner) for owner in owners}}
    return modules, {normalised(owner) for owners in owners_of.values() for owner in owners} - allowed


def normalised(name: str) -> str:
    return re.sub(r"[._]", "-", name).lower()


HIDING = """\
import importlib.metadata
import sys

MODULES, DISTRIBUTIONS = {modules!r}, {distributions!r}
every_distribution = importlib.metadata.MetadataPathFinder.find_distributions


class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MODULES:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


def some_distributions(*arguments, **options):
    for found in every_distribution(*arguments, **options):
        if found.metadata["Name"].replace("_", "-").replace(".", "-").lower() not in DISTRIBUTIONS:
            yield found


sys.meta_path.insert(0, Refusing())
importlib.metadata.MetadataPathFinder.find_distributions = some_distributions
"""
"""Module that hides other modules and distributions in every process with it on its path."""


@pytest.fixture
def bare_gpu_host(tmp_path: Path) -> dict[str, str]:
    """Environment in which, in every process, only modules that a bare GPU host has can be imported."""
    modules, distributions = outside(ON_A_BARE_GPU_HOST)
    assert {"ortools", "pyomo", "matplotlib", "pytest"} <= modules & distributions
    (tmp_path / "sitecustomize.py").write_text(HIDING.format(modules=modules, distributions=distributions))
    return os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


def test_on_a_bare_gpu_host_the_loop_lists_its_steps(bare_gpu_host: dict[str, str], tmp_path: Path) -> None:
    refused = subprocess.run(
        [sys.executable, "-c", "import ortools"], env=bare_gpu_host, capture_output=True, check=False
    )
    assert b"No module named 'ortools'" in refused.stderr
    done = called("gpu", "--dry-run", env=bare_gpu_host, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "profile all four networks" in done.stdout


@pytest.mark.soak
def test_on_a_bare_gpu_host_the_commands_of_the_loop_run(bare_gpu_host: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "measured").mkdir()
    assert profile(FakeRig(), profile_request(tmp_path / "measured", Grid.quick()), lambda line: None) == 0
    commands = (
        "doctor",
        "profile fit measured -o entry.toml",
        "run --instances igniter-3 --schedulers local-search,colgen@local-search --ledger ledger.sqlite --plans plans",
    )
    for line in commands:
        done = called(*line.split(), env=bare_gpu_host, cwd=tmp_path)
        assert "Traceback" not in done.stderr, line
        assert "No module named" not in done.stderr + done.stdout, line
        assert line == "doctor" or done.returncode == 0, done.stderr
    assert list((tmp_path / "plans").glob("*.json"))
    # The figures of the report need one more distribution; the loop then says that the report is missing.
    reported = called("report", "ledger.sqlite", "-o", "report", env=bare_gpu_host, cwd=tmp_path)
    assert reported.returncode == 2
    assert reported.stderr.splitlines()[-1] == 'error: needs matplotlib: pip install "gpushare-bench"'
