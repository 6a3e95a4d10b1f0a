"""Types, schemas, partition specs, sort orders, transforms and values (spec: Schemas and Data Types)."""
