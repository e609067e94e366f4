"""MediatorDNN and the baselines of its paper: groups of jobs that share a GPU."""
