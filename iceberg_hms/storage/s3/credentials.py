"""The session of botocore that finds the credentials, the region and the endpoint of S3, for all clients."""

from __future__ import annotations

import logging
from typing import Any, Final

import botocore.session
from botocore.config import Config
from botocore.credentials import AssumeRoleCredentialFetcher, CredentialProvider, DeferredRefreshableCredentials
from botocore.loaders import create_loader

from iceberg_hms.clock import Clock
from iceberg_hms.config import Settings
from iceberg_hms.storage.retries import Retries

#: At DEBUG they would write what STS answers, and session tokens, into the log of a program that logs all at DEBUG.
for _name in ("botocore.parsers", "botocore.auth"):
    logging.getLogger(_name).setLevel(logging.INFO)

#: Where neither a setting nor the AWS tools name one; stores that are not AWS mostly accept any.
_DEFAULT_REGION: Final = "us-east-1"


#: For all sessions: reading the description of S3 takes 0.3 s.
_LOADER: Final = create_loader()


def make_session(settings: Settings) -> botocore.session.Session:
    """A session whose credentials are those of `make_source_session`, or of the role to assume with them."""
    source = make_source_session(settings)
    if not settings.s3_role_arn:
        return source
    assuming = _new_session()
    provider = _RoleProvider(settings, source)
    # The first provider of the chain wins.
    chain = assuming.get_component("credential_provider")
    chain.insert_before(chain.providers[0].METHOD, provider)
    return assuming


def make_source_session(settings: Settings) -> botocore.session.Session:
    """A session whose credentials are those of the settings, or those that the AWS tools find (environment, shared
    files, web identity, container, instance)."""
    session = _new_session()
    if settings.s3_access_key_id:
        session.set_credentials(
            settings.s3_access_key_id, settings.s3_secret_access_key, settings.s3_session_token or None
        )
    return session


def _new_session() -> botocore.session.Session:
    session = botocore.session.Session()
    session.register_component("data_loader", _LOADER)
    return session


def region_of(settings: Settings, session: botocore.session.Session) -> str:
    """The region of the settings, or the one that the AWS tools find."""
    return settings.s3_region or session.get_config_variable("region") or _DEFAULT_REGION


def client_config(settings: Settings, **options: Any) -> Config:
    """How botocore's clients send requests: once, within the settings' time."""
    return Config(
        connect_timeout=settings.s3_connect_timeout,
        read_timeout=settings.s3_request_timeout,
        retries={"total_max_attempts": 1, "mode": "standard"},
        # Checksums that stores before 2024 do not know.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        **options,
    )


def retries_of(settings: Settings, clock: Clock, *, total_seconds: float) -> Retries:
    """How often requests are sent again, and when. total_seconds: as for `Retries`."""
    return Retries(
        settings.s3_retry_num_retries,
        wait_seconds=(settings.s3_retry_min_wait_ms / 1_000, settings.s3_retry_max_wait_ms / 1_000),
        total_seconds=total_seconds,
        clock=clock,
    )


def make_sts_client(settings: Settings, session: botocore.session.Session, **credentials: Any) -> Any:
    """A client of STS, which answers at `s3.endpoint` where that is set, as MinIO and Ceph do."""
    return session.create_client(
        "sts",
        endpoint_url=settings.s3_endpoint or None,
        region_name=region_of(settings, session),
        config=client_config(settings),
        **credentials,
    )


class _RoleProvider(CredentialProvider):  # type: ignore[misc]
    """The credentials of `s3.role-arn`, renewed before they expire."""

    METHOD = "iceberg-hms-role"

    def __init__(self, settings: Settings, source: botocore.session.Session) -> None:
        super().__init__()
        self._settings = settings
        self._source = source

    def load(self) -> Any:
        settings, source = self._settings, self._source

        def create_client(_service: str, **credentials: Any) -> Any:
            return make_sts_client(settings, source, **credentials)

        fetcher = AssumeRoleCredentialFetcher(
            create_client,
            source.get_credentials(),
            settings.s3_role_arn,
            extra_args={"RoleSessionName": settings.s3_role_session_name},
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)
