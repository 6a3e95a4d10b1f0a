"""Table locks in ZooKeeper: a choice beside the metastore's own, and the fallback for tables that are marked for it."""
