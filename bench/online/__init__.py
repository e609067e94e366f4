"""Online runs: the plan follows the measured rates and changes while requests arrive."""
