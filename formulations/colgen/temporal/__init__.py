"""Certified bounds for plans in which slots take turns, and workloads may be in many gpulets: ``spatio-temporal``."""
