"""Stores of rows that one phase collects for the training of a later one."""

from components import lookup

__getattr__, __dir__ = lookup(__name__)
