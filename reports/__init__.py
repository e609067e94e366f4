"""From ledger to pictures."""
