"""Domain randomisation: the dynamics of each episode, drawn anew."""
