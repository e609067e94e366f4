"""Schedulers of the papers and reference heuristics, one file each."""
