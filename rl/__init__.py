"""Schedulers based on reinforcement learning."""
