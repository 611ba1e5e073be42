"""Potentials: functions of the state for shaping."""
