"""Output on a terminal of 80 columns: no key is cut, long lists are cut, seeds share a line."""

import os
import pty
import re
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from bench.cli.app import main
from bench.cli.completion import complete_figure, complete_gpu, complete_instance, complete_scheduler
from bench.cli.views.tables import Fitted, show
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances.library import LIBRARY
from instances.suites import suite
from tests.bench.cli.conftest import Start

WIDTH = 80
INSTANCES = (*suite("exact-scaling").build()[:8], *suite("64gpu").build()[:1])
NAMES = ("igniter", "elastic-partitioning", "a-scheduler-with-a-very-long-name", "random")


class Terminal(StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], list[str]]:
    """Run a command as on a terminal and return its lines without colours."""

    def run(line: str) -> list[str]:
        stdout = Terminal()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", str(WIDTH))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stdout)
            assert main(line.split()) in (0, 1)
        return re.sub(r"\x1b\[[0-9;]*m", "", stdout.getvalue()).splitlines()

    return run


@pytest.fixture
def ledger(tmp_path: Path, make_row: Callable[..., Row]) -> dict[str, Row]:
    rows = {}
    with Ledger(tmp_path / "l.sqlite", create=True) as opened:
        for instance_number, instance in enumerate(INSTANCES):
            for scheduler_number, scheduler in enumerate(NAMES):
                for seed in range(3):
                    key = f"{instance_number:02x}{scheduler_number:02x}{seed:02x}" + "a1" * 29
                    row = make_row(
                        key=key,
                        instance=instance.name,
                        instance_hash=instance.fingerprint,
                        scheduler=scheduler,
                        parameters={},
                        seed=seed,
                        decision_s=123.4,
                    )
                    value = 1183.6 + 50.0 * seed * (scheduler_number == 3)
                    values = {"value": value, "feasible": True, "bound": 1100.0, "bound_certified": False}
                    late = {"sim_violation_rate": 0.123, "sim_violating": 12}
                    rows[key] = replace(row, **values, **late)  # type: ignore[arg-type]
                    opened.add(rows[key], instance)
    return rows


LINES = [
    *(f"list {kind}" for kind in ("figures", "instances", "suites", "schedulers", "gpus")),
    *("show --ledger l.sqlite", "show --best --ledger l.sqlite", "show 64gpu-cost --ledger l.sqlite"),
    *("stats l.sqlite", "compare igniter random --ledger l.sqlite", "compare l.sqlite l.sqlite"),
    "show 000000a1 --ledger l.sqlite",
]


@pytest.mark.parametrize("line", LINES)
def test_lists_fit_a_terminal(screen: Callable[[str], list[str]], ledger: dict[str, Row], line: str) -> None:
    shown = screen(line)
    assert len(shown) > 2
    assert [wide for wide in shown if len(wide) > WIDTH] == []
    tables = "\n".join(shown).split("\n\n\n")
    assert max(len(table.splitlines()) for table in tables) <= 120
    if line.startswith("list"):
        assert len(shown) <= 60


@pytest.mark.parametrize("line", ["show --ledger l.sqlite", "show 64gpu-cost --ledger l.sqlite"])
def test_the_printed_part_of_a_key_finds_its_run(
    screen: Callable[[str], list[str]], ledger: dict[str, Row], line: str
) -> None:
    printed = [word for each in screen(line) for word in re.findall(r"\b[0-9a-f]{6,}\b", each.partition(" late")[2])]
    starts = {key[:8] for key in ledger}
    assert len(printed) >= 4
    assert all(len(word) >= 8 and word in starts for word in printed)
    assert any(
        ledger_key in "".join(screen(f"show {printed[0]} --ledger l.sqlite")).replace(" ", "") for ledger_key in ledger
    )


def test_seeds_share_a_line_with_their_spread(screen: Callable[[str], list[str]], ledger: dict[str, Row]) -> None:
    shown = screen("show --ledger l.sqlite --all")
    random = [line for line in shown if line.strip().startswith("random")]
    assert len(random) == len(INSTANCES)
    assert all("1,183.60–1,283.60 $/h" in line and "3 of 3 late" not in line for line in random)
    assert all(line.count("1,183.60 $/h") == 1 for line in shown if line.strip().startswith("igniter"))


@pytest.mark.parametrize("width", [60, 66, *range(70, 100), 120, 200])
def test_keys_are_whole_at_any_width(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    stdout = Terminal()
    rows = [
        ["igniter-mix-6-s1", name, "6.12 $/h", "- ", "0 on paper", "3 of 3 late", f"b8b8267{n}"]
        for n, name in enumerate(("igniter", "random", "ffd+"))
    ]
    columns = ["instance", "scheduler", ">value", ">gap", ">judged", "=holds", "=run"]
    show(Fitted(columns, rows, ["one"] * 3, ("judged",)), stream=stdout)
    assert re.findall(r"\bb8b8267\d\b", stdout.getvalue()) == ["b8b82670", "b8b82671", "b8b82672"]


def test_a_long_list_is_cut_on_a_terminal_but_not_in_a_pipe(
    screen: Callable[[str], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = screen("show 64gpu-cost")
    assert any(re.fullmatch(r"\.\.\. and \d+ more lines; `\| less -S` shows all", line) for line in shown)
    assert sum(line.startswith("w") for line in shown) < 60
    assert sum(line.startswith("w") for line in screen("show 64gpu-cost --all")) == 161
    main(["show", "64gpu-cost"])
    assert sum(line.startswith("w") for line in capsys.readouterr().out.splitlines()) == 161


def test_lines_fit_a_real_terminal_of_80_columns(start: Start, tmp_path: Path, ledger: dict[str, Row]) -> None:
    fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    running = start("show --ledger l.sqlite", stdout=terminal)
    os.close(terminal)
    output = b""
    with suppress(OSError):  # on Linux, reading fails once the command has closed the terminal
        while chunk := os.read(reader, 65536):
            output += chunk
    os.close(reader)
    assert running.wait() == 0
    running.communicate()
    lines = re.sub(r"\x1b\[[0-9;]*m", "", output.decode()).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert sum(bool(re.search(r" [0-9a-f]{8}$", line)) for line in lines) > 10


@pytest.mark.parametrize(
    ("offered", "typed", "names"),
    [
        (complete_scheduler, "igniter,colg", ["igniter,colgen"]),
        (complete_scheduler, "cpsat@ign", ["cpsat@igniter"]),
        (complete_instance, "64gpu-cap", ["64gpu-capacity"]),
        (complete_instance, f"library/{LIBRARY.names()[0]}", [f"library/{LIBRARY.names()[0]}"]),
        (complete_figure, "exact-g", ["exact-gap"]),
        (complete_gpu, "v100,t", ["v100,t4"]),
    ],
)
def test_names_are_completed(offered: Callable[[str], list[str]], typed: str, names: list[str]) -> None:
    assert sorted(offered(typed)) == names


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("list figures exact-gpa", 'did you mean "exact-gap"?'),
        ("list instances 64gpu-cots", 'did you mean "64gpu-cost"?'),
        ("figures exact-gpa", 'did you mean "exact-gap"?'),
        ("show 64gpu-cots", 'did you mean "64gpu-cost"?'),
        ("generate igniter-mx --size 3", 'did you mean "igniter-mix"?'),
        ("generate pool-mix --size 3 --pool v10", 'did you mean "v100"?'),
        ("generate pool-mix --size 3 --slo tigt", 'did you mean "tight"?'),
        ("generate igniter-mix --size 3 --objective cots", 'did you mean "cost"?'),
        ("generate igniter-mix --size 3 --slo-rule atainment", 'did you mean "attainment"?'),
        ("schema plam", 'did you mean "plan"?'),
        ("export --format parqet", 'did you mean "parquet"?'),
        ("train tss --suite 4gpu -o x", 'did you mean "ts"?'),
        ("train ts --suite 4gpuu -o x", 'did you mean "4gpu"?'),
        ("shwo", "Did you mean 'show'?"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(capsys: pytest.CaptureFixture[str], line: str, hint: str) -> None:
    assert main(line.split()) == 2
    assert hint in capsys.readouterr().err
