"""The content of a table as rows: pointer, metadata, history, manifests, data files.

Each module turns one part of a table into dicts of plain values, to print, compare or write as JSON. Nothing here
writes to the table. A value that cannot be decoded is shown raw, since operators also inspect damaged tables.
"""
