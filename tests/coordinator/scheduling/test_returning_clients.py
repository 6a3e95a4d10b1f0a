"""The server waits for a sender only if its refused commits came back lately."""

from iceberg_hms.coordinator.scheduling.returning_clients import MISSES_MAX, SENDERS_MAX, ReturningClients
from iceberg_hms.runtime import ThreadRuntime

LONG_NAME = "x" * 10_000


def clients_with_misses(*senders):
    clients = ReturningClients(ThreadRuntime())
    for sender in senders:
        clients.record_miss(sender)
    return clients


def test_one_miss_does_not_condemn_an_engine():
    clients = clients_with_misses("duckdb")
    assert clients.returns("duckdb")


def test_the_server_does_not_wait_for_a_sender_with_repeated_misses():
    clients = clients_with_misses(*["duckdb"] * MISSES_MAX)
    assert not clients.returns("duckdb")
    assert clients.returns("spark"), "each sender is judged by its own misses"


def test_one_return_clears_all_misses_of_a_sender():
    clients = clients_with_misses(*["duckdb"] * MISSES_MAX * 2)
    clients.record_return("duckdb")
    assert clients.returns("duckdb")
    clients.record_miss("duckdb")
    assert clients.returns("duckdb"), "its misses are counted from zero"


def test_senders_are_bounded_and_the_oldest_miss_is_forgotten_first():
    clients = clients_with_misses(*["first"] * MISSES_MAX, *["second"] * MISSES_MAX)
    for number in range(SENDERS_MAX - 1):
        clients.record_miss(str(number))
    assert clients.returns("first")
    assert not clients.returns("second")


def test_only_the_beginning_of_a_long_name_counts():
    clients = clients_with_misses(LONG_NAME + "1", LONG_NAME + "2")
    assert not clients.returns(LONG_NAME + "3")
    clients.record_return(LONG_NAME)
    assert clients.returns(LONG_NAME + "3")
