"""Real servers to try things out and to test with: a Hive Metastore and a ZooKeeper from the jars of the pyspark wheel.

Both listen on 127.0.0.1 alone and end with the Python process that started them, however it ends.
"""
