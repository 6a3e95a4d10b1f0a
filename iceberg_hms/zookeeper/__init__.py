"""Table locks in ZooKeeper: a choice beside the metastore's own, and the fallback for tables that are marked for it.

session.py  one kazoo session, its state, and the few requests that locks need
nodes.py    what a lock looks like: folders, names, contents, order
attempt.py  one try to get a lock
held.py     a held lock: renewed, checked, released
lock.py     the TableLock port over these, and what operators ask
faults.py   the only place that looks at kazoo's exceptions
"""
