"""Instances of a user's own cluster from tables of services, GPUs and measured latencies."""

from instances.inputs.instance import Asked, ask

__all__ = ["Asked", "ask"]
