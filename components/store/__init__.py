"""Stores of rows that one phase collects for the training of a later one."""
