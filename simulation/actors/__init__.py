"""The writers, clients and operators of a schedule."""
