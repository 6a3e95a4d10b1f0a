"""Manifests and manifest lists: records, reading and writing (spec: Manifests)."""
