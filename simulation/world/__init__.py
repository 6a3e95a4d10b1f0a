"""What the processes share: metastore, ZooKeeper, storage, network, and what goes wrong in them."""
