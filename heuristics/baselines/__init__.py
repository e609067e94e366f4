"""Reference heuristics of this bench: random placement and local search."""
