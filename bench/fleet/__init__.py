"""Plans for a cluster of one's own: the best plan in the time allowed, beside what people do today."""
