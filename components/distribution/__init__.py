"""Distributions of points that flows are fitted to."""
