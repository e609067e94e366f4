"""Instance of a cluster of one's own: tables of services, GPUs and measured latencies."""

from instances.inputs.instance import Asked, ask

__all__ = ["Asked", "ask"]
