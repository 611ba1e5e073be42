"""Replays: steps of the past, drawn again."""
