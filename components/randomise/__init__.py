"""Domain randomisation: random dynamics in each episode."""
