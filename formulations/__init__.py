"""Exact schedulers: models of the whole problem, solved to a certified bound."""
