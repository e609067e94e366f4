"""Cost of a performance model's error: GPUs, violations and margins of plans on measured pairs, against the optimum.

A GPU holds one workload, or two at a measured pair of configurations. The measurements therefore decide whether a plan
is feasible, and a matching gives the least number of GPUs. ``cells`` reads the measurements, ``pairing`` plans and
judges, ``experiment`` fits, calibrates margins of plans and compares, and ``margins`` has margins by model and batch.
"""
