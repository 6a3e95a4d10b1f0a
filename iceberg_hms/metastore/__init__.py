"""The Hive Metastore: the only package that speaks Thrift. It drives the TableLock and TablePointer ports."""
