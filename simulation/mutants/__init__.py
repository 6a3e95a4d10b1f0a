"""Planted defects, each of which the simulation must find."""
