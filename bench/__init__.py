"""The harness: scheduler contract, judge, runner, ledger and command line."""
