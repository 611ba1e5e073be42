"""Rollouts in other processes: the data sent to a worker, and its work."""
