"""Ranks: processes that share the passes and the gradients of one run, started by torchrun."""
