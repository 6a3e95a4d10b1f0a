"""Which lock a table takes, and what operators do to locks."""
