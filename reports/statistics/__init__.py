"""Statistics over many runs; the docstring of each statistic has its definition.

All statistics use one number of a run: the gap between its plan and the best known plan, 0 to 1 (``gaps``). The gap
of a run without a feasible plan is 1, so failures count. Gaps can be averaged over instances with different objectives.
Runs with several seeds are not independent, so their mean counts as one result.
"""
