"""iGniter and the baselines of its paper (TPDS 2022)."""
