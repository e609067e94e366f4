"""``bench plan`` and ``bench deploy``: README's commands, and what they refuse."""

from pathlib import Path

import pytest
from conftest import Call

ROOT = Path(__file__).parents[3]


def readme_commands() -> list[str]:
    section = (ROOT / "README.md").read_text().partition("## Your own services")[2].partition("\n## ")[0]
    return [line.split("#")[0] for line in section.partition("```sh\n")[2].partition("```")[0].splitlines()]


def test_readme_goes_from_services_to_files(call: Call, tmp_path: Path) -> None:
    commands = readme_commands()
    assert [line.split()[1] for line in commands] == ["plan", "plan", "deploy"]
    example, planned, written = (call(*line.split()[1:]) for line in commands)
    assert example.code == 0
    assert planned.code == 0, planned.err
    numbers = [line[0] for line in planned.out.splitlines() if line[:1].isdigit() and " a100 " not in line[:8]]
    assert numbers == ["1", "2", "3", "4", "5"]
    assert planned.out.startswith("1 saves ")
    assert "interference on a100: a buffer, every neighbour adds 81 %" in planned.err
    assert written.code == 0, written.err
    assert "read back and judged: every constraint holds" in written.out
    assert (tmp_path / "out" / "compose.yaml").exists()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("plan", "SERVICES: is missing; the command needs SERVICES and --gpus"),
        ("plan nothing.csv --gpus nothing.csv", "nothing.csv: cannot be read: No such file or directory"),
        ("deploy nothing.json --to compose -o out", "nothing.json: cannot be read"),
        ("deploy nothing.json --to swarm -o out", "--to: 'swarm' is not one of"),
    ],
)
def test_wrong_input_gets_one_line(call: Call, command: str, problem: str) -> None:
    done = call(*command.split())
    assert done.code == 2
    assert done.err.startswith(f"error: {problem}")
    assert len(done.err.splitlines()) == 1
