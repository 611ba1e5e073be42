"""Updates of target networks."""
