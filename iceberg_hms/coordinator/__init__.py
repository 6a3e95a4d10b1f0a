"""The commit protocol over ports. Read coordinator.py first, then group.py: they follow the nine steps in order.

    coordinator.py  the door: one queue and one worker a table
    group.py        steps 2 to 9 for one group of changes
    staging.py      check and stage each change on the running metadata, each from a savepoint
    invariants.py   what must hold between the base and the new metadata, as named predicates
    resolution.py   step 8: what became of a swap that was sent
    outcome.py      landed, absent or untraceable: what the table itself says of a swap
    coverage.py     whether a held lock covers what is done under it
    garbage.py      delete files that nothing names any more
    moves.py        create, register, rename, drop
    bases.py        metadata by location, cached
    member.py       one queued change and its caller's wait
    report.py       what a commit did
    ports.py        all that the protocol asks of the world

This package has no threads, queues, clocks or libraries of its own: production hands it a Runtime made of threads, a
simulation one that a seed steers.
"""
