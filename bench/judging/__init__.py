"""Judge of plans: objective value and violated constraints, independent of the scheduler."""
