"""Reference heuristics of this suite: random placement and local search."""
