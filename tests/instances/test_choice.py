"""Choice of pairs to measure: its coverage, its order, and margins of few chosen rows against those of all."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import GpuType
from instances.catalogue import gpu_type
from instances.measurements import SOLO_FILE, Configuration, PairSample, read_solo
from instances.model_error.calibration import calibrated_type
from instances.model_error.cells import MeasuredCell, read_cells
from instances.model_error.choice import ROWS, all_pairs, next_pairs
from instances.model_error.few_pairs import few_pairs
from instances.performance.margins import with_margins
from instances.performance.profile_fit import fit_pairs
from instances.performance.validation import validate
from tests.instances.test_performance_fit import measured
from tests.soak import first

BATCHES = {"a": (1, 8, 32), "b": (1, 8, 32), "c": (1, 8, 32)}
PAIRS = all_pairs(BATCHES)


def sides_of(pairs: list[tuple[Configuration, Configuration]]) -> set[tuple[str, int]]:
    return {(side.model, side.batch) for pair in pairs for side in pair}


def test_pairs_hold_every_two_sides_at_every_division() -> None:
    assert len(PAIRS) == 3 * 45
    assert (Configuration("a", 8, 20.0), Configuration("b", 1, 80.0)) in PAIRS


def test_half_as_many_pairs_as_sides_cover_every_model_and_batch() -> None:
    assert len(sides_of(next_pairs(PAIRS, 5))) == 9


@given(st.integers(1, 20), st.integers(1, 20))
def test_a_longer_choice_continues_a_shorter_one(count: int, more: int) -> None:
    first, longer = next_pairs(PAIRS, count), next_pairs(PAIRS, count + more)
    assert longer[:count] == first
    assert next_pairs(PAIRS, more, first) == longer[count:]
    assert len(set(map(frozenset, longer))) == count + more


def test_models_without_measured_pairs_come_first() -> None:
    measured_pairs = [pair for pair in PAIRS if {side.model for side in pair} <= {"a", "b"}]
    assert "c" in {side.model for side in next_pairs(PAIRS, 1, measured_pairs)[0]}
    assert next_pairs(measured_pairs, 5, measured_pairs) == []
    assert next_pairs([], 5) == []


def cells_of(name: str, folder: str) -> tuple[GpuType, list[MeasuredCell]]:
    path: Path = measured(folder).parent
    return gpu_type(name), read_cells(path, read_solo(path / SOLO_FILE))


def samples_of(cells: list[MeasuredCell]) -> list[PairSample]:
    return [sample for cell in cells for sample in cell.samples]


@pytest.mark.parametrize(("name", "folder"), [("a100", "a100-gpulet"), ("v100", "v100-igniter")])
@pytest.mark.parametrize("splits", first(1, [1, 10]))
def test_the_margin_of_25_chosen_pairs_is_within_3_points_of_the_margin_of_all(
    name: str, folder: str, splits: int
) -> None:
    gpu, cells = cells_of(name, folder)
    results = few_pairs(cells, lambda seen: fit_pairs(gpu, samples_of(seen)), splits)
    assert len(results) == splits
    assert np.mean([result.margin for result in results]) <= np.mean([result.of_all for result in results]) + 0.03


def test_too_few_cells_give_no_comparison() -> None:
    cells = [MeasuredCell(pair, (1.0, 1.0)) for pair in PAIRS[:99]]
    assert few_pairs(cells, lambda _: pytest.fail("is not fitted"), splits=1) == []


@pytest.mark.parametrize(("name", "folder"), [("a100", "a100-gpulet"), ("v100", "v100-igniter")])
@pytest.mark.parametrize("level", first(1, [0.95, 0.9, 0.8]))
def test_margins_of_25_chosen_rows_cover_their_level_of_the_others(name: str, folder: str, level: float) -> None:
    gpu, cells = cells_of(name, folder)
    chosen = {frozenset(pair) for pair in next_pairs([cell.sides for cell in cells], ROWS)}
    rows = samples_of([cell for cell in cells if frozenset(cell.sides) in chosen])
    calibrated = calibrated_type(fit_pairs(gpu, rows), rows, level)
    assert calibrated is not None
    others = samples_of([cell for cell in cells if frozenset(cell.sides) not in chosen])
    errors = validate(with_margins(*calibrated), "hybrid", others)
    assert np.mean(errors.relative >= 0.0) >= level
