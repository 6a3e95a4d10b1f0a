"""Hive tables that Spark really makes, which become Iceberg tables in place."""
