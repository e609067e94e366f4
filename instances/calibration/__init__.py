"""Catalogue entries that are computed from other measurements and from published points.

``t4``, ``rtx2080ti`` and ``a100-inss`` are shaped like another GPU and pinned to published points; these points are
therefore no evidence for the model. ``a100-llm`` has smoothed measurements. ``python -m instances.calibration NAME
MEASUREMENTS`` prints an entry.
"""
