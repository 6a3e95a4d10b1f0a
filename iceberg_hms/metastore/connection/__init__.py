"""One connection and the pool of them: Thrift's structures, faults, versions and capabilities."""
