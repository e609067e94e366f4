"""Request-level simulation of a plan: arrivals, queues, batches, and interference between co-located batches."""
