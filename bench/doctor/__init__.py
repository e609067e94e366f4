"""Checks of the environment (right answers) and of the machine (honest times)."""
