"""Exact planning of GPUs cut into MIG instances: an integer program over layouts, and dual bounds that prove optima."""

from formulations.mig.scheduler import Mig

__all__ = ["Mig"]
