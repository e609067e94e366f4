"""Charts by kind, in one style; the figures in ``reports.papers`` use them."""
