"""Replay of plans on hardware with the standard library, NumPy and PyTorch: ``python -m bench.replay PLAN``."""
