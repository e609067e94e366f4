"""``bench doctor``: its findings on versions, imports and the machine; runs refuse solvers with wrong optima."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli.app import main
from bench.doctor import Finding, Level, solvers
from bench.doctor import examination as doctor
from bench.doctor.solvers import KNOWN_BAD, KnownBad, release_numbers

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Pretend that these versions of distributions are installed, and no others."""

    def pretend(**versions: str) -> None:
        for module in (solvers, doctor):
            monkeypatch.setattr(module, "distribution_version", versions.get)

    return pretend


def levels(findings: list[Finding]) -> set[Level]:
    return {finding.level for finding in findings}


# Versions


@pytest.mark.parametrize(
    ("version", "release"),
    [("1.13.1", (1, 13, 1)), ("1.14.0", (1, 14)), ("1.14.0rc1", (1, 14)), ("2.13.0+cpu", (2, 13)), ("10", (10,))],
)
def test_the_release_is_the_leading_numbers_of_a_version(version: str, release: tuple[int, ...]) -> None:
    assert release_numbers(version) == release


@pytest.mark.parametrize(
    ("versions", "trouble"),
    [
        ({"highspy": "1.13.1", "ortools": "9.15.6755"}, []),
        ({"highspy": "1.14.0", "ortools": "9.15.6755"}, ["wrong optima"]),
        ({"highspy": "1.14.0"}, ["wrong optima"]),
        ({"highspy": "1.15.0", "ortools": "9.15.6755"}, ["cannot be loaded together with ortools"]),
        ({"highspy": "2.0", "ortools": "9.15.6755"}, ["cannot be loaded together with ortools"]),
        ({"highspy": "1.15.0"}, []),
        ({}, []),
    ],
)
def test_known_bad_versions_are_errors_with_advice(
    install: Install, versions: dict[str, str], trouble: list[str]
) -> None:
    install(**versions)

    findings = doctor.known_bad_versions()

    assert len(findings) == len(trouble)
    for finding, words in zip(findings, trouble, strict=True):
        assert finding.level is Level.ERROR
        assert words in finding.found
        assert finding.advice == 'pip install "highspy==1.13.1"'


def test_no_advised_version_is_known_to_be_bad() -> None:
    for bad in KNOWN_BAD:
        name, _, version = bad.install.partition("==")
        assert not any(other.covers(version) for other in KNOWN_BAD if other.distribution == name)


def test_a_solver_that_is_missing_is_an_error_unless_an_extra_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "solver_versions", lambda: {"numpy": "2.0", "ortools": None, "torch": None})

    finding_of = {finding.check: finding for finding in doctor.installed_versions()}

    assert {name: finding.level for name, finding in finding_of.items()} == {
        "numpy": Level.OK,
        "ortools": Level.ERROR,
        "torch": Level.OK,
    }
    assert finding_of["ortools"].advice == 'pip install "gpushare-bench"'
    assert finding_of["torch"].advice == 'pip install "gpushare-bench[rl]"'


# Imports


def test_modules_that_load_together_are_ok(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(a="1", b="1")
    monkeypatch.setattr(doctor, "LOADED_TOGETHER", {"a": "json", "b": "csv"})

    assert levels(doctor.import_clashes()) == {Level.OK}


def test_a_clash_in_one_order_of_imports_is_an_error(
    install: Install, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "second.py").write_text("import sys\nif 'csv' in sys.modules: raise ImportError('undefined symbol')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    install(a="1", b="1")
    monkeypatch.setattr(doctor, "LOADED_TOGETHER", {"a": "csv", "b": "second"})

    (finding,) = doctor.import_clashes()

    assert finding.level is Level.ERROR
    assert finding.found == "a then b in one process: ImportError: undefined symbol"
    assert finding.advice


def test_modules_that_crash_or_hang_when_imported_are_reported(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(a="1", b="1")
    monkeypatch.setattr(doctor, "LOADED_TOGETHER", {"a": "json", "b": "os; os._exit(3)"})
    assert [f.found.rpartition(": ")[2] for f in doctor.import_clashes()] == ["exit status 3"] * 2

    monkeypatch.setattr(doctor, "IMPORT_LIMIT_S", 0.2)
    monkeypatch.setattr(doctor, "LOADED_TOGETHER", {"a": "json", "b": "threading; threading.Event().wait()"})
    assert [f.found.rpartition(": ")[2] for f in doctor.import_clashes()] == ["no result after 0.2 s"] * 2


def test_a_solver_alone_cannot_clash(install: Install) -> None:
    install(highspy="1.13.1")

    assert doctor.import_clashes() == []


# The machine


@pytest.mark.parametrize(("usable", "level"), [(1, Level.WARNING), (2, Level.OK)])
def test_one_usable_core_is_a_warning(usable: int, level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "usable_cores", lambda: usable)

    assert levels(doctor.cores()) == {level}


@pytest.mark.parametrize(("average", "expected"), [(None, set()), (0.5, {Level.OK}), (3.0, {Level.WARNING})])
def test_a_high_load_average_is_a_warning(
    average: float | None, expected: set[Level], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "usable_cores", lambda: 4)
    monkeypatch.setattr(doctor, "load_average", lambda: average)

    assert levels(doctor.load()) == expected


@pytest.mark.parametrize(
    ("available", "expected", "advice"),
    [
        (None, [], ""),
        (0.9, [Level.ERROR], "free 1.3 GB, which a run's imports need"),
        (4.0, [Level.WARNING], "use --jobs 3"),
        (64.0, [Level.OK], ""),
    ],
)
def test_little_memory_is_a_warning_or_an_error(
    available: float | None, expected: list[Level], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "usable_cores", lambda: 8)
    memory = {} if available is None else {"MemAvailable": 1024.0 * available}
    monkeypatch.setattr(doctor, "memory_mib", lambda: memory)

    findings = doctor.memory()

    assert [finding.level for finding in findings] == expected
    assert [finding.advice for finding in findings] == [advice] * len(expected)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")
def test_linux_reports_available_memory() -> None:
    assert doctor.memory_mib()["MemAvailable"] > 0.0


@pytest.mark.parametrize(("free", "level"), [(2**29, Level.WARNING), (2**40, Level.OK)])
def test_little_free_disk_space_is_a_warning(free: int, level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: doctor.shutil._ntuple_diskusage(2**41, 0, free))

    assert levels(doctor.disk()) == {level}


# The command


def pretend_checks(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    monkeypatch.setattr(doctor, "CHECKS", tuple(lambda each=each: [each] for each in findings))


FINE = Finding("cores", Level.OK, "8 usable")
BUSY = Finding("load", Level.WARNING, "7.10", "end other programs")
WRONG = Finding("highspy", Level.ERROR, "1.14.0 reports wrong optima", 'pip install "highspy==1.13.1"')


@pytest.mark.parametrize(("findings", "code"), [((FINE,), 0), ((FINE, BUSY), 0), ((WRONG, BUSY, FINE), 1)])
def test_only_errors_make_the_command_fail(
    findings: tuple[Finding, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_checks(monkeypatch, *findings)

    assert main(["doctor"]) == code
    shown = capsys.readouterr().out
    assert all(finding.found in shown and finding.advice in shown for finding in findings)

    assert main(["doctor", "--format", "json"]) == code
    assert json.loads(capsys.readouterr().out) == [
        {"check": f.check, "level": f.level, "found": f.found, "advice": f.advice} for f in findings
    ]


def test_this_environment_has_good_solvers(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--format", "json"])

    levels_by_check = {f["check"]: f["level"] for f in json.loads(capsys.readouterr().out)}
    assert {levels_by_check[name] for name in ("highspy", "ortools", "pyscipopt", "pyomo", "imports")} == {"ok"}


# Runs


@pytest.mark.parametrize("command", [["run", "--instances", "smoke"], ["figures", "igniter-fig14", "--quick"]])
def test_runs_refuse_a_solver_that_gives_wrong_answers(
    command: list[str],
    install: Install,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    install(highspy="1.14.0")

    assert main(command) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "error: highspy 1.14.0: reports wrong optima of mixed-integer programs (presolve);"
        ' install another version: pip install "highspy==1.13.1"\n'
    )
    assert not list(tmp_path.rglob("*.sqlite"))


def test_a_solver_that_fails_to_load_does_not_prevent_other_runs(install: Install) -> None:
    install(highspy="1.15.0", ortools="9.15.6755")

    solvers.refuse_wrong_answers()


def test_a_bad_range_includes_its_first_and_excludes_its_last_release() -> None:
    bad = KnownBad("x", (1, 2), (1, 4), "fails", "x==1.1")

    assert [v for v in ("1.1.9", "1.2", "1.2.0", "1.3.7", "1.4", "1.4.0", "2.0") if bad.covers(v)] == [
        "1.2",
        "1.2.0",
        "1.3.7",
    ]
