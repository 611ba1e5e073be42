"""Stores: rows that one phase collects and a later one trains on."""
