"""Harness of the bench: scheduler contract, judge, runner, ledger and command line."""
