"""Statements in Spark's session catalog, embedded and stand-alone, beside Java's HiveCatalog on the same metastore."""
