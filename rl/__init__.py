"""Learning schedulers."""
