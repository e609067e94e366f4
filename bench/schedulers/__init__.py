"""Registry of the schedulers, and their parameters."""
