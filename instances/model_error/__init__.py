"""Cost of a performance model's error: GPUs, violations and margins of plans on measured pairs, against the optimum.

A GPU holds one workload or two at a measured pair of configurations, so the measurements are the whole truth, and the
least number of GPUs is a matching. ``cells`` reads the measurements, ``pairing`` plans and judges, and ``experiment``
fits, calibrates margins and compares.
"""
