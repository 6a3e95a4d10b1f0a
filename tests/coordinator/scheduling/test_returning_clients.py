"""The server waits for a sender or not, by what its commits did lately."""

from iceberg_hms.coordinator.scheduling.returning_clients import REMEMBERED_MAX, VAIN_MAX, ReturningClients
from iceberg_hms.runtime import ThreadRuntime

HIDDEN = "x" * 10_000


def senders_of(*stayed_away):
    senders = ReturningClients(ThreadRuntime())
    for sender in stayed_away:
        senders.stayed_away(sender)
    return senders


def test_one_crash_does_not_condemn_an_engine():
    senders = senders_of("duckdb")
    assert senders.come_back("duckdb")


def test_who_stays_away_again_and_again_is_not_waited_for():
    senders = senders_of(*["duckdb"] * VAIN_MAX)
    assert not senders.come_back("duckdb")
    assert senders.come_back("spark"), "each sender by what it did itself"


def test_who_comes_back_once_is_waited_for_again():
    senders = senders_of(*["duckdb"] * VAIN_MAX * 2)
    senders.came_back("duckdb")
    assert senders.come_back("duckdb")
    senders.stayed_away("duckdb")
    assert senders.come_back("duckdb"), "it begins anew"


def test_the_senders_are_bounded_and_the_oldest_are_forgotten():
    senders = senders_of(*["first"] * VAIN_MAX, *["second"] * VAIN_MAX)
    for number in range(REMEMBERED_MAX - 1):
        senders.stayed_away(str(number))
    assert senders.come_back("first")
    assert not senders.come_back("second")


def test_of_a_name_that_a_client_made_endless_only_the_beginning_counts():
    senders = senders_of(HIDDEN + "1", HIDDEN + "2")
    assert not senders.come_back(HIDDEN + "3")
    senders.came_back(HIDDEN)
    assert senders.come_back(HIDDEN + "3")
