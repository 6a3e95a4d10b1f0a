"""What is in a table, as records: pointer, metadata, history, manifests, data files.

Each module turns one part of a table into frozen dataclasses of plain values, so that they can be printed, compared or
written as JSON. Nothing here writes. A value that cannot be read is shown as it is: one looks when a table is damaged.
"""
