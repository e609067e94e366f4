"""The hash of a scheduler's code: it depends on code that the scheduler imports and uses, and on no other code."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.schedulers import sources
from bench.schedulers.registry import entries
from bench.schedulers.sources import scheduler_hash

FILES = {
    "__init__.py": "from .kinds import Kind\nfrom .unused import LIMIT\n",
    "scheduler.py": '"""Mine."""\nfrom madeup import Kind\nfrom madeup.steps import walk\n\nclass Mine:\n    pass\n',
    "kinds.py": "class Kind:\n    pass\n",
    "steps/__init__.py": "from .walking import walk\nfrom .running import run\n",
    "steps/walking.py": "import madeup.pace as pace\n\ndef walk():\n    return pace.SLOW\n",
    "steps/running.py": "def run():\n    return 9\n",
    "pace.py": "SLOW = 3\n",
    "unused.py": "LIMIT = 1\n",
}


@pytest.fixture
def hash_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, str]], str | None]]:
    """Return a function: the hash of the scheduler in ``FILES`` after changes of some files."""
    monkeypatch.syspath_prepend(tmp_path)

    def hash_after(changes: dict[str, str]) -> str | None:
        for name, text in (FILES | changes).items():
            (tmp_path / "madeup" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "madeup" / name).write_text(text, encoding="utf-8")
        _clear_caches()
        return scheduler_hash("madeup.scheduler:Mine")

    yield hash_after
    _clear_caches()


def _clear_caches() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "madeup"]:
        del sys.modules[name]
    for function in (sources.scheduler_hash, sources._parsed, sources._origins, sources._source):
        function.cache_clear()


@pytest.mark.parametrize(
    ("name", "text", "changes_hash"),
    [
        ("scheduler.py", FILES["scheduler.py"].replace("pass", "name = 'mine'"), True),
        ("kinds.py", "class Kind:\n    size = 1\n", True),
        ("steps/walking.py", FILES["steps/walking.py"].replace("SLOW", "SLOW + 1"), True),
        ("pace.py", "SLOW = 4\n", True),
        ("steps/running.py", "def run():\n    return 10\n", False),
        ("unused.py", "LIMIT = 2\n", False),
        ("pace.py", '"""Speeds."""\n\nSLOW = 3  # a comment\n', False),
    ],
)
def test_only_code_that_the_scheduler_reaches_changes_its_hash(
    hash_with: Callable[[dict[str, str]], str | None], name: str, text: str, changes_hash: bool
) -> None:
    before, after = hash_with({}), hash_with({name: text})
    assert None not in (before, after)
    assert (after != before) == changes_hash


def test_every_registered_scheduler_has_a_hash_and_an_unknown_module_has_none() -> None:
    hashes = {entry.name: scheduler_hash(entry.target) for entry in entries().values()}
    assert [name for name, text in hashes.items() if text is None] == []
    assert hashes["igniter"] != hashes["colgen"]
    assert hashes["ffd+"] == hashes["ffd++"]  # two classes of one file
    assert scheduler_hash("no_such_package.scheduler:Mine") is None
