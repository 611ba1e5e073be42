"""Clusters: where rollouts are made."""
