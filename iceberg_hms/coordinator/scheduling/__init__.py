"""When which commit runs: the queue of each table, its worker's thread, and which commits wait for others."""
