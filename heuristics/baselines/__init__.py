"""Reference heuristics of this bench: random placement, local search, and equal parts of GPUs."""
