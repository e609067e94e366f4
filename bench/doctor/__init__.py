"""Whether this environment can give right answers, and this machine honest times."""
