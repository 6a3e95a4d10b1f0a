"""Hive tables become Iceberg tables where they lie, on Spark: their files stay, and their metadata is made anew."""
