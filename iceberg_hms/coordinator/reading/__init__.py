"""What the coordinator reads: metadata files, through a cache, and a table by its UUID."""
