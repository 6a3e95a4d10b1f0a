"""The commit protocol under a seed: the real coordinator and real changes in a world that goes wrong on purpose.

    python -m simulation --schedules 10000 --seed 1
    python -m simulation.mutants.run

    seeded.py        random numbers that a seed decides
    scheduler.py     threads of which one runs at a time, and the clock
    runtime.py       the coordinator's Runtime port on them
    faults.py        what goes wrong, and how often: the wire that every call passes
    metastore.py     the metastore's database: rows, the lock queue with its lease, a clock of its own
    service.py       its servers: Thrift's calls, compare-and-swap in its four kinds, what they say when they refuse
    metastore_client.py  where the metastore's client stands: the real pool, fence, lock, heartbeat, sweepers run on it
    foreign.py       the metastore as Java and PyIceberg use it
    machines.py      which processes there are, and who can see that one has ended
    ensemble.py      the simulated ZooKeeper: sessions, nodes, watches
    connection.py    where kazoo's client stands: the real session and the real ZooKeeper lock run on it
    storage.py       Files and Manifests in memory; decoding.py, so that it is quick; tables.py, the first table
    history.py       what every client was told
    site.py          what all processes share, and what each has: the real choice of locks among it
    writers.py       our writers, and those who write without us
    clients.py       servers, and the stock clients that commit through them; shipments.py, what those send
    movers.py        those who move whole tables, and the operator who marks them
    scenario.py      who does what in which weather, and what is promised then; scenarios.py, scenarios_clients.py
    table_state.py   what a table is; contents.py, what its snapshots hold; view.py, what a judge sees of a step
    invariants.py    what must hold after every step; numbering.py, fairness.py; judge.py, who looks
    schedule.py      one schedule from its seed to its verdict, and many of them; batches.py, in several processes
    mutants.py       planted defects, each of which the simulation must find: planted.py and its parts

A schedule is one run of a scenario under one seed. The same seed gives the same run, event by event, so a failure is
replayed by its seed and read in its trace. Processes crash, pause past their lease and wake; requests and replies are
lost, delayed and delivered twice; the metastore refuses what it has just committed; its lock API breaks and heals;
ZooKeeper cannot be reached, and ends sessions. What runs is the product's own code down to the calls of
the metastore's client and of kazoo's, and down to the drivers of the storage.
"""
