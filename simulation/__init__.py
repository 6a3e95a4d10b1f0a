"""Runs the commit protocol under a seed: the product's own code against servers that fail on purpose.

    python -m simulation --schedules 10000 --seed 1
    python -m simulation.mutants

    engine/      seeded random numbers, threads of which one runs at a time, the clock, the Runtime port
    world/       what the processes run against: metastore, ZooKeeper, storage, and the faults of every call to them;
                 the ports of one process; the record of what each client asked for and was answered
    actors/      who acts: our writers, servers with stock clients, foreign writers, callers of catalog operations,
                 users of views
    checks/      what must hold after every step: the invariants, the tables that they look at, the checker
    scenarios/   who does what under which faults, and what is promised then
    schedule.py  one schedule from its seed to its result; batches.py runs many in several processes
    mutants/     planted defects, each of which the simulation must find

A room imports only those above it in this list. Each file's first line says what it is.

A schedule is one run of a scenario under one seed. The same seed gives the same run, event by event: replay a failure
by its seed, and read its trace. Processes crash, pause past their lease and wake; requests and replies are lost,
delayed and delivered twice; the metastore refuses what it has just committed; its lock API breaks and recovers;
ZooKeeper becomes unreachable and ends sessions. All code under test is the product's own, down to the calls of the
metastore's client, of kazoo's client, and of the storage drivers.
"""
