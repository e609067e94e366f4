"""The objective ``capacity`` in CP-SAT: sets of workloads on one GPU each, and a choice among the sets."""
