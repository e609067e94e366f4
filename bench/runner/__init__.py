"""The runner: every run in a limited process of its own, here or on the nodes of a cluster, and its row."""
