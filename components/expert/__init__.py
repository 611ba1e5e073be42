"""Experts, which label states with the right action."""
