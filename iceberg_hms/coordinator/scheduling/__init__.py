"""When which commit runs: the queue of each table, its worker's thread, and who waits for whom."""
