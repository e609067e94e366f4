"""Request-level simulation of a plan: arrivals, queues, batches, and what co-located batches do to each other."""
