"""The operations of the table format: what each assumes about the table, and what it changes."""
