"""Plans for the user's own cluster: the best plan found within the time limit, beside today's practice."""
