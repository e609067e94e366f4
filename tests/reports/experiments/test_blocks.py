"""Blocks: generated tables of EXPERIMENTS.md in other documents, such as the README."""

import re
from pathlib import Path

import pytest

from instances.errors import InputError
from reports.experiments.blocks import blocks, refreshed

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXPERIMENTS = (ROOT / "EXPERIMENTS.md").read_text(encoding="utf-8")
TEXT = "before\n\n<!-- table: a.b -->\n| old |\n<!-- end -->\n\nafter\n"


def test_a_block_is_replaced_and_other_text_is_unchanged() -> None:
    assert blocks(TEXT) == [("a.b", "| old |")]
    text = refreshed(TEXT, {"a.b": "| new |\n", "a.c": "| other |"}, "README.md")
    assert text == TEXT.replace("old", "new")
    assert refreshed(text, {"a.b": "| new |"}, "README.md") == text
    assert refreshed("no block", {}, "README.md") == "no block"


@pytest.mark.parametrize(
    ("text", "message"),
    [(TEXT.replace("a.b", "a.d"), 'unknown table "a.d"'), (TEXT.replace("end", "eend"), "without an")],
)
def test_wrong_blocks_are_errors(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        refreshed(text, {"a.b": ""}, "README.md")


def test_tables_in_other_documents_are_those_of_the_experiments() -> None:
    schedulers = (ROOT / "docs" / "schedulers.md").read_text(encoding="utf-8")
    shown = [*blocks(README), *blocks(schedulers)]
    assert [name for name, _ in shown] == ["optimum.gaps", "inss.unseen"]
    assert [name for name, table in shown if f"\n\n{table}\n\n" not in EXPERIMENTS] == []


def test_the_readme_has_results_in_blocks_only() -> None:
    """Outside of blocks, the README has no rate, gap, price or time, since it would become outdated."""
    words = re.sub(r"<!-- table: .*?<!-- end -->|```.*?```", "", README, flags=re.DOTALL)
    assert re.findall(r"[^.\n]*\d[\d.,]* (?:%|req/s|\$/h|ms\b)[^.\n]*", words) == []


def test_the_captions_of_the_readmes_pictures_have_the_current_numbers() -> None:
    overview, hold = (
        list(map(int, re.findall(r"(?<![V\d])\d+", caption)))
        for caption in re.findall(r"\(docs/(?:overview|hold)\.svg\)\n\n\*(.*?)\*\n\n", README, flags=re.DOTALL)
    )
    (table,) = re.findall(r"\| headroom until none is late .*?\n\n", EXPERIMENTS, flags=re.DOTALL)
    *papers, search, exact = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    gpus = sorted(int(line[4]) for line in papers if line[4] != "–")
    assert (search[0], exact[1]) == ("local-search", "59, optimal (spatial)")
    (igniter,) = (line for line in papers if line[0] == "igniter")
    rule, _, bound = exact[-1].partition(" (≥ ")
    lower_bound = int(bound.rstrip(")"))
    assert overview == [160, int(igniter[1]), 59, int(igniter[-1]), int(rule), lower_bound]
    assert hold == [160, gpus[0], gpus[-1]]
