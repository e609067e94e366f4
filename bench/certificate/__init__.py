"""Certificates of bounds, and their checker: exact arithmetic, its own search, no code of any solver."""
