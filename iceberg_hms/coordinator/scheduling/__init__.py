"""Who commits when: queues and their threads, batching, retry priority, and backoff for foreign writers."""
