"""Cost of a performance model's error: GPUs, violations and margins of plans on measured pairs, against the optimum.

A GPU holds one workload or two at a measured pair of configurations, so the measurements are the whole truth, and the
least number of GPUs is a matching. ``cells`` reads the measurements, ``pairing`` plans and judges, ``experiment``
fits, calibrates margins of plans and compares, and ``margins`` has margins by model and batch.
"""
