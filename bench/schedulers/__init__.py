"""Schedulers by name: where they are registered, what they can do, and their parameters."""
