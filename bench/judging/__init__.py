"""The judge: what a plan is worth and which constraints it breaks, whoever made it."""
