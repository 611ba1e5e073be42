"""Data sets of steps, for offline learning."""
