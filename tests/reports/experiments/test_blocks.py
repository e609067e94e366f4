"""Blocks: tables of EXPERIMENTS.md in other documents, and those of the README in the repository."""

import re
from pathlib import Path

import pytest

from instances.errors import InputError
from reports.experiments.blocks import blocks, refreshed

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXPERIMENTS = (ROOT / "EXPERIMENTS.md").read_text(encoding="utf-8")
TEXT = "before\n\n<!-- table: a.b -->\n| old |\n<!-- end -->\n\nafter\n"


def test_a_block_is_made_anew_and_the_rest_stays() -> None:
    assert blocks(TEXT) == [("a.b", "| old |")]
    text = refreshed(TEXT, {"a.b": "| new |\n", "a.c": "| other |"}, "README.md")
    assert text == TEXT.replace("old", "new")
    assert refreshed(text, {"a.b": "| new |"}, "README.md") == text
    assert refreshed("no block", {}, "README.md") == "no block"


@pytest.mark.parametrize(
    ("text", "told"), [(TEXT.replace("a.b", "a.d"), 'unknown table "a.d"'), (TEXT.replace("end", "eend"), "without an")]
)
def test_what_is_wrong_with_a_block_is_said(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        refreshed(text, {"a.b": ""}, "README.md")


def test_tables_in_other_documents_are_those_of_the_experiments() -> None:
    schedulers = (ROOT / "docs" / "schedulers.md").read_text(encoding="utf-8")
    shown = [*blocks(README), *blocks(schedulers)]
    assert [name for name, _ in shown] == ["optimum.gaps", "inss.unseen"]
    assert [name for name, table in shown if f"\n\n{table}\n\n" not in EXPERIMENTS] == []


def test_results_stand_in_the_blocks_alone() -> None:
    """No requests per second, gap or price is told outside of them: nothing would keep those up to date."""
    words = re.sub(r"<!-- table: .*?<!-- end -->|```.*?```", "", README, flags=re.DOTALL)
    assert re.findall(r"[^.\n]*\d[\d.,]* (?:%|req/s|\$/h|ms\b)[^.\n]*", words) == []


def test_the_caption_of_the_picture_of_plans_that_hold_has_the_numbers_of_the_experiments() -> None:
    (caption,) = re.findall(r"\(docs/hold\.svg\)\n\n\*(.*?)\*\n\n", README, flags=re.DOTALL)
    (table,) = re.findall(r"\| headroom until none is late .*?\n\n", EXPERIMENTS, flags=re.DOTALL)
    *papers, search, exact = [line.strip("| ").split(" | ") for line in table.strip().splitlines()[2:]]
    gpus = sorted(int(line[4]) for line in papers if line[4] != "–")
    assert (search[0], exact[1]) == ("local-search", "59, optimal (spatial)")
    (igniter,) = (line for line in papers if line[0] == "igniter")
    rule, _, bound = exact[-1].partition(" (≥ ")
    least = int(bound.rstrip(")"))
    told = list(map(int, re.findall(r"\d+", caption)))
    assert told == [160, 59, int(exact[2]), 160, gpus[0], gpus[-1], int(igniter[-1]), int(rule), least]
