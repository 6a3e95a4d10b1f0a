"""For tests, ours and yours: fakes of the ports that keep everything in memory, and the contract suites that every
driver and every fake passes."""
