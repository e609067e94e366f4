"""Ledger: one row per run in an SQLite file, and the gaps of rows to bounds."""
