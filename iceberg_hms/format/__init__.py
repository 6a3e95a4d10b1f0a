"""The Iceberg table format, pure: metadata, schemas, specs, snapshots, manifests and their encodings. No I/O."""
