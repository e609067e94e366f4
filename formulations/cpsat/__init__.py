"""Compact assignment model in integers, solved by CP-SAT."""

from formulations.cpsat.scheduler import CpSat

__all__ = ["CpSat"]
