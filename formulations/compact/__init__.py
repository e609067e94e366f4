"""Compact Pyomo model of the whole problem, and its piecewise linearisation."""
