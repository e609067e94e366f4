"""The compact assignment model in whole numbers, solved by CP-SAT."""

from formulations.cpsat.scheduler import CpSat

__all__ = ["CpSat"]
