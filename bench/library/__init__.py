"""Changes of the library: submissions of plans and certificates, and schedulers run on open entries."""
