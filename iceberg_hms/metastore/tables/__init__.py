"""The rows of tables and databases: the TablePointer port over Thrift."""
