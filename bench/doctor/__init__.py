"""Checks of the environment (correct results of solvers) and of the machine (undisturbed times)."""
