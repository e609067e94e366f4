"""Column generation for the plan class ``spatial``: one slot per gpulet, each workload on one GPU."""
