"""Interventions: whoever watches a policy may act in its place."""
