"""The clients of S3's buckets, which share what the settings or the AWS tools say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from botocore import UNSIGNED

from iceberg_hms.clock import Clock
from iceberg_hms.config import Settings
from iceberg_hms.errors import StorageRefused
from iceberg_hms.storage.s3.botocore_bucket import BotocoreBucket, mapped, prepare
from iceberg_hms.storage.s3.credentials import client_config, make_session, region_of
from iceberg_hms.storage.s3.obstore_bucket import ObstoreBucket, make_store

#: How long obstore keeps credentials that expire; botocore renews them ten minutes before they do.
_KEPT: Final = timedelta(minutes=6)


class S3Clients:
    """Clients with credentials that were found at one time. Safe to share between threads.

    Raises StorageRefused without credentials, and S3Failure if they cannot be found.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        style = {None: "auto", True: "path", False: "virtual"}[settings.s3_uses_path_style]
        config = {"signature_version": UNSIGNED} if settings.s3_anonymous else {}
        with mapped():
            session = make_session(settings)
            self._credentials: Any = None if settings.s3_anonymous else session.get_credentials()
            self._region = region_of(settings, session)
            client = session.create_client(
                "s3",
                endpoint_url=settings.s3_endpoint or None,
                region_name=self._region,
                config=client_config(
                    settings,
                    s3={"addressing_style": style},
                    max_pool_connections=settings.io_threads,
                    **config,
                ),
            )
            self._client = prepare(client)
            authorities = session.get_config_variable("ca_bundle")
        if self._credentials is None and not settings.s3_anonymous:
            raise StorageRefused(
                "No credentials for S3 are set, and the AWS tools find none on this machine",
                next_step="set `s3.access-key-id` and `s3.secret-access-key`, or `s3.anonymous` for public buckets",
            )
        self._authorities = Path(authorities).read_bytes() if authorities else None
        found = str(self._client.meta.endpoint_url)
        is_aws = (urlsplit(found).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))
        # Empty for AWS itself, whose hosts obstore knows by their regions.
        self._endpoint = "" if is_aws and not settings.s3_endpoint else found
        self._buckets: dict[str, ObstoreBucket] = {}

    def renew(self) -> None:
        """Renew credentials that expire soon. Raises S3Failure."""
        if self._credentials is not None:
            with mapped():
                self._credentials.get_frozen_credentials()

    def botocore(self, bucket: str) -> BotocoreBucket:
        """The client that names every key."""
        return BotocoreBucket(self._client, bucket)

    def obstore(self, bucket: str) -> ObstoreBucket:
        """The client that is quick."""
        found = self._buckets.get(bucket)
        if found is None:
            # A dot in the host's name would fit no certificate.
            by_default = bool(self._endpoint) or "." in bucket
            chosen = self._settings.s3_uses_path_style
            store = make_store(
                bucket,
                endpoint=self._endpoint,
                region=self._region,
                path_style=by_default if chosen is None else chosen,
                credentials=None if self._settings.s3_anonymous else self._for_obstore,
                connect_seconds=self._settings.s3_connect_timeout,
                request_seconds=self._settings.s3_request_timeout,
                certificates=self._authorities,
            )
            # No lock: the first one made is kept.
            found = self._buckets.setdefault(bucket, ObstoreBucket(store))
        return found

    def _for_obstore(self) -> Any:
        """An S3Credential of obstore."""
        frozen = self._credentials.get_frozen_credentials()
        now = datetime.fromtimestamp(self._clock.now_ms() / 1_000, UTC)
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": now + _KEPT if frozen.token else None,
        }
