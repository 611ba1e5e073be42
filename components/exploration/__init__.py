"""Exploration: what is done to the actions of a policy while it collects."""
