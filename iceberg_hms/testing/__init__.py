"""For tests, ours and yours: contract suites for the ports, fakes in memory that pass them, a seeded simulation of the
commit protocol with planted bugs, a fault proxy that knows Thrift's calls, and a checker of a table's history."""
