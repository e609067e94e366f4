"""Reports: figures, the page and EXPERIMENTS.md, from a ledger."""
