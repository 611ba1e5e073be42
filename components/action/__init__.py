"""Actions at the begin of a phase: take, restore and freeze weights, reset an optimiser."""
