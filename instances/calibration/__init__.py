"""Catalogue entries that no measurement of their GPU stands behind: shaped from elsewhere, pinned to published points.

What is pinned is no evidence for the model that was pinned. ``python -m instances.calibration NAME MEASUREMENTS``
prints the entry ``t4``, ``rtx2080ti`` or ``a100-inss`` again.
"""
