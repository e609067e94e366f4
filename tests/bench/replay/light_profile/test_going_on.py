"""Resuming of an interrupted profile: measured points are not repeated, and errors are one line."""

from pathlib import Path

import pytest

from bench.cli.app import main
from bench.replay.light_profile.journal import JOURNAL, Journal, ModelFacts
from bench.replay.light_profile.points import Grid, Tenant
from bench.replay.light_profile.run import profile
from bench.replay.process import ChildError
from instances import InputError
from instances.measurements import read_solo
from tests.bench.replay.light_profile.fake_rig import MODELS, FakeRig, profile_request


@pytest.fixture
def progress_lines() -> list[str]:
    return []


def test_after_ctrl_c_the_next_run_measures_only_the_missing_points(tmp_path: Path, progress_lines: list[str]) -> None:
    total = len(set(Grid.quick().all_points(MODELS)))
    first = FakeRig(stop_after=7)

    assert profile(first, profile_request(tmp_path, Grid.quick()), progress_lines.append) == 130

    assert "interrupted; 7 measured points kept" in progress_lines[-2]
    assert len(read_solo(tmp_path / "solo.csv")) == 7
    second = FakeRig()
    assert profile(second, profile_request(tmp_path, Grid.quick()), progress_lines.append) == 0
    assert len(second.measured) == total - 7
    assert not set(first.measured) & set(second.measured)
    assert (tmp_path / "profile.json").exists()
    third = FakeRig()
    assert profile(third, profile_request(tmp_path, Grid.quick()), progress_lines.append) == 0
    assert third.measured == []


def test_a_failed_point_is_reported_and_measured_by_the_next_run(tmp_path: Path, progress_lines: list[str]) -> None:
    large = Tenant("vgg19", 32, 100.0)

    assert profile(FakeRig(fails=large), profile_request(tmp_path, Grid.quick()), progress_lines.append) == 1

    assert any("vgg19 b32 100 %: OutOfMemoryError: CUDA out of memory" in line for line in progress_lines)
    second = FakeRig()
    assert profile(second, profile_request(tmp_path, Grid.quick()), progress_lines.append) == 0
    assert second.measured == [(large,)]


def test_a_model_that_fails_to_load_is_reported(
    tmp_path: Path, progress_lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def facts(rig: FakeRig, model: str) -> ModelFacts:
        raise ChildError(f"no {model}")

    monkeypatch.setattr(FakeRig, "facts", facts)

    assert profile(FakeRig(), profile_request(tmp_path, Grid.quick()), progress_lines.append) == 1
    assert progress_lines[:2] == ["vgg19: no vgg19", "alexnet: no alexnet"]


def test_progress_has_the_number_of_points_and_the_time_left(tmp_path: Path, progress_lines: list[str]) -> None:
    total = len(set(Grid.quick().all_points(MODELS)))
    profile(FakeRig(), profile_request(tmp_path, Grid.quick()), progress_lines.append)

    assert progress_lines[0].startswith(f"[1/{total}] vgg19 b1 20 %: ")
    assert " W, about " in progress_lines[0]
    assert progress_lines[0].endswith(" left")
    assert progress_lines[total - 1].startswith(f"[{total}/{total}] ")
    assert not progress_lines[total - 1].endswith(" left")


def test_measurements_of_another_device_in_the_folder_are_refused(tmp_path: Path, progress_lines: list[str]) -> None:
    profile(FakeRig(stop_after=1), profile_request(tmp_path, Grid.quick()), progress_lines.append)

    with pytest.raises(InputError, match=f'{JOURNAL}: belongs to "cuda Known 1000 .*use another folder'):
        profile(FakeRig(name="Other 2000"), profile_request(tmp_path, Grid.quick()), progress_lines.append)


def test_a_journal_with_a_cut_line_is_repaired_and_a_wrong_one_refused(
    tmp_path: Path, progress_lines: list[str]
) -> None:
    profile(FakeRig(stop_after=3), profile_request(tmp_path, Grid.quick()), progress_lines.append)
    file = tmp_path / JOURNAL
    whole = file.read_text()

    file.write_text(whole + '{"tenants": [{"mod')
    assert len(Journal(tmp_path, FakeRig().device).readings) == 3
    assert file.read_text() == whole

    file.write_text(whole + '{"tenants": 3}\n')
    line = whole.count("\n") + 1
    with pytest.raises(InputError, match=rf"{JOURNAL}: line {line}: is not a measurement"):
        Journal(tmp_path, FakeRig().device)


WRONG = [
    ("--models vgg19,vgg", '--models: unknown model "vgg"; did you mean'),
    ("--models vgg19,vgg19", "--models: expected one or more model names without repetition"),
    ("--seconds 0", "--seconds: 0; expected 0.05 to 600"),
    ("--price-per-hour -1", "--price-per-hour: -1; expected a finite number greater than 0"),
    ("--device cpu --partition mps", "--partition mps: needs a GPU; leave it out with --device cpu"),
    ("--gpu 0", "--gpu 0: finds no NVIDIA GPU (NVML lists none); expected a host with a GPU and its driver"),
    ("--gpu -1", "--gpu: "),
    ("-o taken/folder", "-o taken/folder: cannot be created: "),
]


@pytest.mark.parametrize(("options", "expected"), WRONG)
def test_wrong_input_is_one_line_and_exit_code_2(
    options: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "nowhere")
    Path("taken").touch()

    assert main(["profile", "run", *options.split()]) == 2

    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {expected}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("[]", "expected an object"),
        ('{"name": ""}', "name: expected a non-empty string"),
        ('{"memory_mib": 0}', "memory_mib: "),
        ('{"memory_mib": true}', "memory_mib: "),
        ('{"share_units": 2.5}', "share_units: is 2.5; expected a whole number"),
    ],
)
def test_a_wrong_gpu_file_is_refused(
    facts: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gpu.json").write_text(facts)

    assert main(["profile", "fit", str(tmp_path)]) == 2

    assert f"gpu.json: {expected}" in capsys.readouterr().err
