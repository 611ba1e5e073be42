"""Stages, phases, wiring and the loop."""
