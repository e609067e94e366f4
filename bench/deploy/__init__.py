"""Plans as files that deploy them, and the way back from the files to a plan."""
