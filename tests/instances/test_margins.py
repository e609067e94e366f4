"""Margins: coverage of exchangeable rows, the finite-sample rank, levels, and the rows behind a margin."""

from math import ceil, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import InputError
from instances.margin import Basis
from instances.measurements import Configuration
from instances.model_error.cells import MeasuredCell
from instances.model_error.margins import ConformalMargins, conformal_quantile, covered_fractions

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=150, unique=True), st.sampled_from(LEVELS))
def test_leaving_each_row_out_covers_exactly_the_lower_ranks(values: list[int], level: float) -> None:
    covered = [values[i] <= conformal_quantile([*values[:i], *values[i + 1 :]], level) for i in range(len(values))]
    assert sum(covered) == ceil(len(values) * round(100 * level) / 100)
    assert sum(covered) >= level * len(values) - 1e-9


def test_the_quantile_has_the_finite_sample_rank() -> None:
    for count, level, expected in (
        (19, 0.95, 19.0), (18, 0.95, inf), (99, 0.99, 99.0), (98, 0.99, inf), (39, 0.95, 38.0), (3, 0.5, 2.0),
        (0, 0.5, inf),
    ):  # fmt: skip
        assert conformal_quantile([float(i) for i in range(count, 0, -1)], level) == expected, (count, level)


def test_a_margin_grows_with_the_level_across_all_bases() -> None:
    random = np.random.default_rng(0)
    sides = [Configuration(m, b, 50.0) for m, b, n in (("a", 1, 30), ("a", 2, 5), ("b", 1, 50)) for _ in range(n)]
    ratios = random.lognormal(0.0, 0.3, len(sides)).tolist()
    levels = np.linspace(0.02, 0.998, 200).tolist()
    for model, batch in (("a", 1), ("a", 2), ("b", 1), ("b", 9), ("c", 1)):
        margins = [ConformalMargins.of(sides, ratios, level).margin(model, batch) for level in levels]
        factors = [margin.factor for margin in margins]
        assert factors == sorted(factors), (model, batch)
        assert len({margin.basis for margin in margins}) > 1


def test_a_margin_states_the_rows_behind_it() -> None:
    sides = [Configuration(m, b, 50.0) for m, b, n in (("a", 1, 20), ("a", 2, 1), ("b", 1, 5)) for _ in range(n)]
    margins = ConformalMargins.of(sides, [1.1] * 20 + [1.7] + [1.2] * 5, 0.95)
    margin_of = {key: margins.margin(*key) for key in (("a", 1), ("a", 2), ("b", 1), ("c", 1))}
    assert {key: (margin.basis, margin.rows) for key, margin in margin_of.items()} == {
        ("a", 1): (Basis.BATCH, 20), ("a", 2): (Basis.MODEL, 21), ("b", 1): (Basis.GPU, 26), ("c", 1): (Basis.GPU, 26),
    }  # fmt: skip
    # The pool alone would give 1.1 at batch 2 of model a, where 1.7 was measured.
    assert margin_of["a", 2].factor == 1.7
    of_few_rows = ConformalMargins.of(sides[:3], [2.5] * 3, 0.95).margin("a", 1)
    assert (of_few_rows.factor, of_few_rows.basis) == (2.5, Basis.GUESS)
    assert ConformalMargins.of([], [], 0.95).margin("a", 1).factor == pytest.approx(1.814)


def test_half_of_exchangeable_cells_covers_the_other_half_at_the_level() -> None:
    random = np.random.default_rng(1)
    cells = [
        MeasuredCell((Configuration("a", 1, 50.0), Configuration("b", 1, 50.0)), (float(x), float(y)))
        for x, y in random.lognormal(0.2, 0.3, (400, 2))
    ]
    for level in (0.8, 0.95):
        fractions = covered_fractions(cells, np.ones((400, 2)), level)
        assert len(set(fractions)) > 10
        assert abs(float(np.mean(fractions)) - level) < 0.015
    assert covered_fractions(cells, np.array([cell.latency_ms for cell in cells]), 0.95, 2) == [1.0, 1.0]


def test_levels_outside_0_and_1_are_refused() -> None:
    for level in (0.0, 1.0, 1.2):
        with pytest.raises(InputError, match="level: is"):
            ConformalMargins.of([], [], level)
