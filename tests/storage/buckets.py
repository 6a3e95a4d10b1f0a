"""Files on S3 for tests: by both of the driver's client libraries, and with waits that take no time."""

from __future__ import annotations

from typing import Any

from iceberg_hms.clock import SystemClock
from iceberg_hms.config import Settings
from iceberg_hms.storage.drivers import remote_drivers
from iceberg_hms.storage.files import RoutedFiles

#: A key that goes by obstore, and one that goes by botocore, which alone can name it.
BY_OBSTORE, BY_BOTOCORE = "a/b c%20d", "a//b"


class Waits(SystemClock):
    """A clock that records each sleep, and goes on by it at once."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def jitter(self) -> float:
        return 0.5


def files_on(endpoint: str, clock: SystemClock | None = None, **settings: Any) -> RoutedFiles:
    """The files of a store at an address."""
    return RoutedFiles(remote_drivers(settings_on(endpoint, **settings), clock or Waits()))


def settings_on(endpoint: str, **settings: Any) -> Settings:
    """What `files_on` is set to."""
    keys = {"s3_access_key_id": "AKIDEXAMPLE", "s3_secret_access_key": "hush-secret"}
    return Settings(**{"s3_endpoint": endpoint, "s3_request_timeout": 20, **keys, **settings})
