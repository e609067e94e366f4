"""Statistics over many runs: one per file, its definition in the docstring.

Everything rests on one figure of a run, the gap of its plan to the best known one, between 0 and 1, which is 1 for a
run without a feasible plan (``best_known``). So a failure is never left out, and costs, rates and scales of different
size can be put together. Runs of several seeds count as one result, their mean: they are not independent.
"""
