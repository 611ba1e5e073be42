"""Episodes: a policy and environments, turn by turn."""
