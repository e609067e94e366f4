"""``bench profile`` and its commands."""
