"""Files that deploy a plan, and readers that recover the plan from them."""
