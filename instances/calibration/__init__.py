"""Calibrated catalogue entries: shaped like measurements of another GPU, pinned to published points.

A pinned point is not evidence for the model. ``python -m instances.calibration NAME MEASUREMENTS`` prints the entry
``t4``, ``rtx2080ti`` or ``a100-inss`` again.
"""
