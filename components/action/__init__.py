"""Actions at the begin of a phase: snapshots of weights, back to them, frozen weights, moments."""
