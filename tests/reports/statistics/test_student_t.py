import numpy as np
import pytest

from reports.statistics.inference import half_width


def test_the_half_width_uses_the_tabulated_quantile():
    values = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert half_width(values) == pytest.approx(2.776445 * (2.5 / 5.0) ** 0.5)


def test_columns_are_separate_and_one_value_has_no_width():
    assert half_width([[1.0, 7.0], [3.0, 7.0]]) == pytest.approx([12.706205, 0.0])
    assert half_width([4.0]) == 0.0
    assert half_width([[4.0, 5.0]]).tolist() == [0.0, 0.0]


def test_the_interval_holds_the_mean_in_95_percent_of_samples():
    samples = np.random.default_rng(1).normal(3.0, 2.0, (5, 4000))
    inside = np.abs(samples.mean(axis=0) - 3.0) <= half_width(samples)
    assert inside.mean() == pytest.approx(0.95, abs=0.01)
