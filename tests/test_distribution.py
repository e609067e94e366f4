"""Distribution of test files to processes."""

from tests.distribution import next_file


def test_processes_stay_in_packages_of_their_own_while_they_can() -> None:
    waiting = ["tests/bench/a", "tests/formulations/b", "tests/rl/c", "tests/formulations/d", "tests/e", "tests/rl/f"]
    taken: list[str | None] = [None, None]
    begun = []
    for process in (0, 1, 1, 1, 1, 1):
        file = next_file(waiting, taken[process], [other for other in (taken[1 - process],) if other])
        waiting.remove(file)
        taken[process] = file
        begun.append(file.removeprefix("tests/"))
    assert begun == ["formulations/b", "rl/c", "rl/f", "bench/a", "e", "formulations/d"]
