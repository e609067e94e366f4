"""Catalogue entries that are computed from other measurements and from published points.

The entries ``t4``, ``rtx2080ti``, ``rtx2080ti-arxiv`` and ``a100-inss`` have the times of another GPU, adjusted to
published points. These points are therefore no evidence for the model. The entry ``a100-llm`` has smoothed
measurements. ``python -m instances.calibration NAME MEASUREMENTS`` prints an entry.
"""
