"""Ledger: one row per run in an SQLite file, the gaps of rows to bounds."""
