"""The metastore's lock API: the TableLock port, heartbeats, and the removal of dead writers' entries."""
