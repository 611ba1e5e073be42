"""Target networks, moved after the networks they follow."""
