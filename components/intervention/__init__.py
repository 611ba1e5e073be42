"""Interventions: actions of an observer in place of the policy's."""
