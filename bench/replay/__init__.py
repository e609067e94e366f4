"""Plans replayed on hardware; needs the standard library, NumPy and PyTorch: ``python -m bench.replay PLAN``."""
