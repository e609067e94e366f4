"""Test whether a plan holds: whether it keeps its SLO attainment in long simulations under random arrivals."""
