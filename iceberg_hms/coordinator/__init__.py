"""The commit protocol over ports. Read coordinator.py first, then group/commit_group.py: it follows the nine steps.

    coordinator.py      the door: load, commit, submit, catalog operations
    scheduling/         when which commit runs: queue, batching, retry priority, backoff for foreign writers
    group/              one group of commits, from the loaded pointer to the answered callers
    operations/         tables and views as a whole: create, register, rename, drop
    sending/            sends a swap or another request under locks, and judges its answer
    files/              which files may be deleted
    staging/            one change: pending, checked, staged on a base, written
    outcome/            did it land?
    reading/            metadata files through a cache, and tables by their UUID
    locations/          where tables and files may lie, and who else has a folder
    ports.py            all that the coordinator asks of the metastore, of storage and of its runtime

This package has no threads, queues, clocks or libraries of its own: production hands it a Runtime made of threads, the
simulation one that a seed steers.
"""
