"""Runner: execution of every run in its own limited process, on this host or on the nodes of a cluster."""
