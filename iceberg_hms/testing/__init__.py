"""For tests, ours and yours.

contracts   suites of checks that every implementation of a port must pass
memory_*    fakes of the ports in memory that pass them, and a whole catalog of such fakes
faults      proxies that lose, delay, hold and repeat calls; one knows Thrift's calls, one partitions any stream
history     a checker that reads a table's whole history and reports what is wrong
"""
