"""Ruin and recreate: search for plans that removes residents of a few GPUs and places them anew."""
