"""Replay buffers of earlier steps, and stages that fill and sample them."""

from components import lookup

__getattr__, __dir__ = lookup(__name__)
