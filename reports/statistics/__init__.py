"""Statistics over many runs, each with its definition in the docstring.

All of them use one figure of a run: the gap of its plan to the best known one, between 0 and 1. It is 1 for a run
without a feasible plan (``gaps``). A failure is therefore never left out, and costs, rates and scales of
different size can be combined. Runs of several seeds count as one result, their mean, since they are not independent.
"""
