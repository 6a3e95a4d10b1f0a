"""Faults between a client and a real metastore: a TCP proxy that knows which Thrift call it carries."""
