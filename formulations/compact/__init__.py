"""The true problem as one compact Pyomo model, and its piecewise linearisation."""
