"""The ledger: one row per run in an SQLite file, what rows say of each other, and what is whole of a damaged file."""
