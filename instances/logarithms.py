"""Logarithms and exponentials with the same digits on every machine.

On some processors, such as those with AVX-512, NumPy computes logarithms and exponentials by other code, whose results
may differ in the last digits. Tables of times, and the budgets that follow from them, would then differ, too.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from instances.arrays import Floats


def log(values: ArrayLike) -> Floats:
    """Return the natural logarithm of each value, which must be greater than 0."""
    values = np.asarray(values, dtype=np.float64)
    return np.fromiter(map(math.log, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


def exp(values: ArrayLike) -> Floats:
    """Return the exponential of each value; infinite if it exceeds the largest float."""
    values = np.asarray(values, dtype=np.float64)
    return np.fromiter(map(_exp, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
