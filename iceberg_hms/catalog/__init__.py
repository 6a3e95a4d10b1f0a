"""Tables and namespaces for callers: what the Python API, the REST server and the command line stand on."""
