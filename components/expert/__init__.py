"""Experts: what would have been right to do."""
