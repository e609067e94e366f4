"""Instances for a user's own cluster, built from tables of services, GPUs and measured latencies."""

from instances.inputs.instance import TabulatedInstance, instance_from_tables

__all__ = ["TabulatedInstance", "instance_from_tables"]
