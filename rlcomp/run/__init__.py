"""Stages, phases and the loop of a run."""
