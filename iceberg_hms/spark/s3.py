"""What Spark needs for Iceberg tables on S3: AWS's library, and the settings of Iceberg's S3FileIO. Pure."""

from __future__ import annotations

from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.setting import described

#: Iceberg's own choice of AWS's classes. Iceberg's runtime has S3FileIO without them.
AWS_BUNDLE: Final = "org.apache.iceberg:iceberg-aws-bundle:1.11.0"

#: Properties whose values nobody may see: those that hand on the library's secrets.
SECRET_PROPERTIES: Final = tuple(setting.key for setting in described(Settings) if setting.is_secret)

_SCHEMES: Final = ("s3://", "s3a://", "s3n://")
#: Java's client refuses to start without a region; stores that are not AWS mostly accept any.
_DEFAULT_REGION: Final = "us-east-1"
_ANONYMOUS: Final = "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
_ASSUME_ROLE: Final = "org.apache.iceberg.aws.AssumeRoleAwsClientFactory"


def is_on_s3(location: str | None) -> bool:
    """Whether a location is in an S3 bucket."""
    return location is not None and location.lower().startswith(_SCHEMES)


def is_of_s3(name: str) -> bool:
    """Whether a key or an attribute of a setting is one of those for S3."""
    return name.startswith(("s3.", "s3_"))


def s3_properties(settings: Settings) -> dict[str, str]:
    """The properties of an Iceberg catalog by which its S3FileIO reaches the store that `settings` name; none where
    all is left to the AWS tools' own configuration, which Java reads too.

    Timeouts and retries are not among them: those of a commit and those of a query have nothing in common.
    Raises ConfigError for a role that Java's client cannot assume.
    """
    endpoint = settings.s3_endpoint
    region = settings.s3_region or (_DEFAULT_REGION if endpoint else "")
    path_style = {None: "", True: "true", False: "false"}[settings.s3_uses_path_style]
    found = {"s3.endpoint": endpoint, "client.region": region, "s3.path-style-access": path_style}
    if settings.s3_anonymous:
        found["client.credentials-provider"] = _ANONYMOUS
    elif settings.s3_role_arn:
        found |= _role(settings, region)
    else:
        found["s3.access-key-id"] = settings.s3_access_key_id
        found["s3.secret-access-key"] = settings.s3_secret_access_key
        found["s3.session-token"] = settings.s3_session_token
    return {name: value for name, value in found.items() if value}


def _role(settings: Settings, region: str) -> dict[str, str]:
    if settings.s3_access_key_id or settings.s3_endpoint or not region:
        raise ConfigError(
            "`s3.role-arn`: Spark's S3 client assumes roles of AWS alone, in a region that is named, and with the "
            "credentials that the AWS tools find, not with `s3.access-key-id`",
            next_step="set `s3.region`, and leave `s3.access-key-id` and `s3.endpoint` out, or leave `s3.role-arn` out",
        )
    return {
        "client.factory": _ASSUME_ROLE,
        "client.assume-role.arn": settings.s3_role_arn,
        "client.assume-role.region": region,
        "client.assume-role.session-name": settings.s3_role_session_name,
    }
