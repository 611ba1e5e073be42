"""Clusters of workers that make rollouts."""
