"""Measures what the readers of Iceberg tables make of data files of many shapes."""
