"""The table metadata file: its fields, snapshots, checks and bytes (spec: Table Metadata)."""
