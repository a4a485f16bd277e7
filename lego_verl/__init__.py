"""Reinforcement learning for coding agents in the harness they ship in, on verl."""

__version__ = "0.1.0"
