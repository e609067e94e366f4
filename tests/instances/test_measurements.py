"""Measurement files: both latencies of a row are read, and mistakes are named with their line."""

from math import isnan
from pathlib import Path

import pytest

from instances import InputError
from instances.measurements import Configuration, read_pairs, read_solo

HEAD = "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms"


def csv_file(folder: Path, text: str) -> Path:
    file = folder / "some.csv"
    file.write_text(text)
    return file


def test_solo_rows_may_lack_utilisations(tmp_path: Path) -> None:
    text = "model,batch,share_pct,latency_ms,l2_util_pct,dram_util_pct\na,1,20,3.5,10,20\na,2,50,4.5,,\n"
    first, second = read_solo(csv_file(tmp_path, text))

    assert (first.configuration, first.latency_ms) == (Configuration("a", 1, 20.0), 3.5)
    assert (first.l2_pct, first.dram_pct) == (10.0, 20.0)
    assert isnan(second.l2_pct)
    assert isnan(second.dram_pct)


def test_a_row_with_both_latencies_is_two_samples(tmp_path: Path) -> None:
    text = f"{HEAD},latency_b_ms,std_a_ms,std_b_ms\na,1,20,b,2,80,3.5,4.5,0.1,0.2\n"
    first, second = read_pairs(csv_file(tmp_path, text))

    assert (first.own, first.other) == (second.other, second.own)
    assert (first.latency_ms, first.std_ms) == (3.5, 0.1)
    assert (second.latency_ms, second.std_ms) == (4.5, 0.2)
    assert first.pair == second.pair == ("a", "b")


def test_a_row_with_one_latency_is_one_sample(tmp_path: Path) -> None:
    (only,) = read_pairs(csv_file(tmp_path, f"{HEAD}\nb,1,20,a,2,80,3.5\n"))

    assert isnan(only.std_ms)
    assert only.pair == ("a", "b")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"some\.csv: line 1: lacks the columns model_a, batch_a"),
        ("model_a,batch_a\n", r"some\.csv: line 1: lacks the columns share_a_pct, model_b"),
        (f"{HEAD}\n", r"some\.csv: has no rows"),
        (f"{HEAD}\na,1,20,b,2,80,fast\n", r'some\.csv: line 2: latency_a_ms is "fast"; expected a number'),
        (
            f"{HEAD}\na,1,20,b,2,80,1\na,1,20,b,2,80,nan\n",
            r'some\.csv: line 3: latency_a_ms is "nan"; expected a number',
        ),
        (f"{HEAD}\na,1,20,b,2,80,-1\n", r'some\.csv: line 2: latency_a_ms is "-1"; expected a number greater than 0'),
        (f"{HEAD}\na,1,20,b,2,80\n", r'some\.csv: line 2: latency_a_ms is ""; expected a number greater than 0'),
        (f"{HEAD}\na,1.5,20,b,2,80,1\n", r"some\.csv: line 2: expected a model, a whole batch and a share"),
        (f"{HEAD}\na,1,120,b,2,80,1\n", r"some\.csv: line 2: expected a model, a whole batch and a share"),
        (f"{HEAD}\n,1,20,b,2,80,1\n", r"some\.csv: line 2: expected a model, a whole batch and a share"),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_pairs(csv_file(tmp_path, text))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read"):
        read_solo(tmp_path / "none.csv")
