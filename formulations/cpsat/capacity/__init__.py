"""Objective ``capacity`` in CP-SAT: sets of workloads with one GPU each, and a partition into such sets."""
