"""Metadata of data files, from their footers: columns, bounds, metrics, partition values."""
