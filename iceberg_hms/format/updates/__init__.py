"""`apply(base, updates)`: the metadata that a list of REST updates makes."""
