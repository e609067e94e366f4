"""Schedulers by name: where they are registered, and their parameters."""
