"""The papers' schedulers, one file each."""
