"""Exploration: changes of a policy's actions during collection."""
