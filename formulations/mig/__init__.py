"""Exact planning of GPUs cut into MIG instances: an integer programme over layouts, and prices that prove optima."""

from formulations.mig.scheduler import Mig

__all__ = ["Mig"]
