"""Certified bounds on ``spatio-temporal`` plans: slots take turns, and a workload may be on many gpulets."""
