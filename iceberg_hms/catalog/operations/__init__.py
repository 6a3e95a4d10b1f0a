"""What callers do to a table: each operation as one call, and as a step of a transaction."""
