"""The view format: a view's metadata, what updates make of it, and its metadata files. Pure."""
