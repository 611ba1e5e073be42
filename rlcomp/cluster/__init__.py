"""Rollouts in other processes: what travels to a worker, and what it does there."""
