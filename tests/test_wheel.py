"""The built wheel: it has every file of the packages, and works in an environment without the repository."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("bench", "formulations", "heuristics", "instances", "reports", "rl")
OFFLINE = ("--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def source_files() -> list[str]:
    """Files of the packages that are under version control or about to be, relative to the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in listed if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, source_files: list[str]) -> Path:
    """Wheel that is built from a copy, since the build writes into its source folder."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", *source_files):
        copy = folder / "source" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
    command = [sys.executable, "-m", "pip", "wheel", *OFFLINE, "--wheel-dir", folder, folder / "source"]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_has_every_file_of_the_packages(wheel: Path, source_files: list[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == set(source_files)


@pytest.mark.parametrize(
    ("options", "plans"),
    [
        (("--schedulers", "igniter", "--simulate", "off"), 1),
        pytest.param((), 20, marks=pytest.mark.soak, id="every scheduler"),
    ],
)
def test_the_wheel_runs_without_the_repository(
    options: tuple[str, ...], plans: int, wheel: Path, tmp_path: Path
) -> None:
    """In a new environment whose only package is the wheel; its dependencies are those of this environment.

    The new environment compiles the kernels of the schedulers that it runs anew.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    bin_folder = tmp_path / "env" / "bin"
    site = next((tmp_path / "env" / "lib").glob("python*")) / "site-packages"
    install = [sys.executable, "-m", "pip", "--python", bin_folder / "python", "install", *OFFLINE, wheel]
    subprocess.run(install, check=True, capture_output=True)
    (site / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    empty = tmp_path / "empty"
    empty.mkdir()

    def called(*command: str) -> str:
        return subprocess.run(
            [bin_folder / command[0], *command[1:]],
            cwd=empty,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        ).stdout

    where = "import bench, reports, rl; print(bench.__file__, reports.__file__, rl.__file__)"
    assert all(Path(file).is_relative_to(site) for file in called("python", "-c", where).split())
    shown = called("bench", "run", "--instances", "igniter-3", *options)
    assert len([line for line in shown.splitlines() if line.startswith("igniter-3 ") and "$/h" in line]) >= plans
