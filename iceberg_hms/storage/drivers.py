"""The drivers of remote stores. Each imports its client library when a location first asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from iceberg_hms.clock import SYSTEM_CLOCK, Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError, StorageRefused
from iceberg_hms.format.locations import Location
from iceberg_hms.storage.driver import Driver
from iceberg_hms.storage.files import MakeDriver
from iceberg_hms.storage.retries import Retries

if TYPE_CHECKING:
    from iceberg_hms.storage.s3.vending import StsVending

#: As Hadoop's clients (`dfs.client.failover.max.attempts`).
_FAILOVER_RETRIES: Final = 15


def remote_drivers(settings: Settings, clock: Clock = SYSTEM_CLOCK) -> Mapping[str, MakeDriver]:
    """How to make the driver of each scheme. Making one raises StorageRefused if its client
    library is not installed."""
    return {
        "s3": partial(_s3, settings, clock),
        "hdfs": partial(_hdfs, settings, clock),
        "viewfs": partial(_hdfs, settings, clock),
        "gs": partial(_gs, settings, clock),
    }


def make_vending(settings: Settings, clock: Clock, *, role_arn: str, duration_seconds: int) -> StsVending:
    """What makes credentials for clients. Raises ConfigError as `StsVending`, and if its library is not installed."""
    with _package_of("`rest.vended-credentials=sts`", "s3", ConfigError):
        from iceberg_hms.storage.s3.vending import StsVending
    return StsVending(settings, clock, role_arn=role_arn, duration_seconds=duration_seconds)


def _s3(settings: Settings, clock: Clock) -> tuple[Driver, Retries]:
    with _package_of("The S3 driver", "s3"):
        from iceberg_hms.storage.s3.credentials import retries_of
        from iceberg_hms.storage.s3.driver import S3Driver
    # One that was answered late gets a second chance.
    return S3Driver(settings, clock), retries_of(settings, clock, total_seconds=2 * settings.s3_request_timeout)


def _hdfs(settings: Settings, clock: Clock) -> tuple[Driver, Retries]:
    with _package_of("The HDFS driver", "hdfs"):
        from iceberg_hms.storage.hdfs.driver import CALL_SECONDS, HdfsDriver
    # A failover takes some seconds; after a name node that hangs, another one gets a call.
    retries = Retries(_FAILOVER_RETRIES, total_seconds=2 * CALL_SECONDS, clock=clock)
    return HdfsDriver(settings, clock), retries


def _gs(settings: Settings, clock: Clock) -> tuple[Driver, Retries]:
    from iceberg_hms.storage.pyarrow_driver import PyArrowDriver

    return PyArrowDriver(_gcs_filesystem), Retries(settings.metadata_refresh_max_retries, clock=clock)


def _gcs_filesystem(_location: Location) -> Any:
    from pyarrow.fs import GcsFileSystem

    return GcsFileSystem()


@contextmanager
def _package_of(what: str, extra: str, kind: type[StorageRefused | ConfigError] = StorageRefused) -> Iterator[None]:
    """Raises an error of this kind if a package of the extra is not installed."""
    try:
        yield
    except ImportError as error:
        raise kind(f"{what} needs the package {error.name}", next_step=f"pip install 'iceberg-hms[{extra}]'") from error
