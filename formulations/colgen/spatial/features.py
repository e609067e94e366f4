"""Features that measure how hard workloads are to place: a piecewise linear function of the share, by model."""

from itertools import pairwise

import numpy as np

from formulations.colgen.interference_boxes import RESIDENTS
from formulations.colgen.spatial.boxes import Boxes
from formulations.colgen.spatial.choices import Choices
from instances.arrays import Floats, Ints

KNOTS = 6
"""Points between which the duals of a model's workloads are linear in the mean share."""

FEW_RESIDENTS, MANY_RESIDENTS = 2, 5
"""Residents of the boxes over which shares and power are averaged."""


def features(choices: Choices, boxes: Boxes, class_of: Ints, classes: int) -> Floats:
    """Return features of the classes, shape (classes, features), from 0 to 1.

    For each model they are a constant, the workload's mean share over the boxes, cut into pieces at quantiles, and its
    mean power. A dual that is linear in them with weights of at least 0 does not fall as the share grows, and may grow
    or fall with the power.

    Parameters
    ----------
    choices, boxes
        Choices with one choice per workload, and the boxes with their least shares and demands.
    class_of
        Class of each choice.
    """
    least = boxes.least
    few = np.flatnonzero((least.box[:, RESIDENTS] >= FEW_RESIDENTS) & (least.box[:, RESIDENTS] <= MANY_RESIDENTS))
    units, power_w, counted = np.zeros(len(class_of)), np.zeros(len(class_of)), np.zeros(len(class_of))
    for i in few:
        fits = np.isfinite(least.power[i])
        units += least.units[i]
        power_w[fits] += least.power[i, fits]
        counted += fits
    power_w /= np.maximum(counted, 1.0)
    columns = []
    for model in np.unique(choices.model):
        of_model = np.flatnonzero(choices.model == model)
        pieces = [np.ones(len(of_model))]
        knots = np.unique(np.quantile(units[of_model], np.linspace(0.0, 1.0, KNOTS)))
        pieces += [np.clip((units[of_model] - low) / (high - low), 0.0, 1.0) for low, high in pairwise(knots)]
        least_w, range_w = power_w[of_model].min(), np.ptp(power_w[of_model])
        if range_w > 0.0:
            pieces += [(power_w[of_model] - least_w) / range_w, 1.0 - (power_w[of_model] - least_w) / range_w]
        for piece in pieces:
            column = np.zeros(classes)
            column[class_of[of_model]] = piece
            columns.append(column)
    return np.array(columns).reshape(len(columns), classes).T
