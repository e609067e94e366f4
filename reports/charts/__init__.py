"""Charts by kind, in one style; they draw what the declarations in ``reports.papers`` name."""
