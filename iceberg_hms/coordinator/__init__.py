"""The commit protocol over ports. Read coordinator.py first, then protocol/commit_group.py: it follows the nine steps.

    coordinator.py      the door: load, commit, submit, catalog operations
    ports.py            all that the coordinator asks of the metastore, of storage and of its runtime
    log_and_continue.py keeps a failure between two groups from ending a queue's worker
    protocol/           one group of commits: stage, write, lock, swap, outcome, clean-up; and the catalog operations
    scheduling/         when which commit runs: queue, batching, retry priority, backoff for foreign writers

This package has no threads, queues, clocks or libraries of its own: production hands it a Runtime made of threads, the
simulation one that a seed steers.
"""
