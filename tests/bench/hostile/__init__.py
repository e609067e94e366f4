"""Hostile schedulers by kind: each docstring describes the attack, and ``ENDS`` how the run must end."""
