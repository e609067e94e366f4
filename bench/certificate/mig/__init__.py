"""Certificates of plans of GPUs that are cut into MIG instances."""
