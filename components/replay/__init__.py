"""Replay buffers of earlier steps, and stages that fill and sample them."""
