"""Logarithms and exponentials: the digits of the C library, whatever instructions NumPy finds."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from instances.logarithms import exp, log


@given(st.lists(st.floats(-700.0, 700.0), max_size=20))
def test_exponentials_are_those_of_the_c_library(values: list[float]) -> None:
    assert exp(np.array(values)).tolist() == [math.exp(value) for value in values]


@given(st.lists(st.floats(1e-300, 1e300), max_size=20))
def test_logarithms_are_those_of_the_c_library(values: list[float]) -> None:
    assert log(np.array(values)).tolist() == [math.log(value) for value in values]


def test_shapes_stay_and_what_exceeds_every_float_is_infinite() -> None:
    assert exp(np.array([[0.0], [1e3]])).tolist() == [[1.0], [math.inf]]
    assert log((1, 1)).tolist() == [0.0, 0.0]
    assert exp(np.array(0.0)).shape == ()
