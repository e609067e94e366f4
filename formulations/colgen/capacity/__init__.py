"""Column generation for ``capacity``: GPUs filled for throughput."""
