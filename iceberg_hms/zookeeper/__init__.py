"""Table locks in ZooKeeper: a choice beside the metastore's own, and the fallback for tables that are marked for it.

session.py  one kazoo session, its state, and the few requests that locks need
lock.py     the TableLock port on ephemeral sequential nodes
faults.py   the only place that looks at kazoo's exceptions
"""
