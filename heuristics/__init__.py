"""Schedulers of the papers, a folder per paper, and reference heuristics."""
