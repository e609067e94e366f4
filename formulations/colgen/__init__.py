"""Column generation over GPU patterns, with certified bounds."""

from formulations.colgen.scheduler import ColGen

__all__ = ["ColGen"]
