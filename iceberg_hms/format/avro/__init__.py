"""The Avro container file, and the schemas of manifests and manifest lists."""
