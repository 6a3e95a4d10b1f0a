"""Compare-and-swap on a table's row, and the proof of what a server makes of it."""
