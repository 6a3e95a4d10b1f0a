"""Sending a swap or another request under locks, and judging its answer."""
