"""What changes in many tables over time, for callers who follow them."""
