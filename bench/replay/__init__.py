"""Replay of plans on GPUs or CPU cores: ``bench replay PLAN``."""
