"""Column generation for the plan class ``split``: a workload served by several gpulets, on one GPU or on several."""
