"""Distributions of points for fits of flows."""
