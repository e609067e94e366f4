"""Terminal views: tables, drawn plans and progress."""
