"""The properties of a PyIceberg catalog as our settings, and back, so that PyIceberg and the coordinator reach the same
metastore and the same stores.

    uri, warehouse          as PyIceberg has them; the uri may begin with `iceberg-hms+thrift://`
    s3.*, hdfs.*, client.*  as PyIceberg has them
    ugi                     the user; a group behind it is ignored
    iceberg-hms.KEY         the setting KEY (docs/configuration.md); `iceberg-hms.config-file`: a TOML file
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.pyiceberg.upstream import configured_properties
from iceberg_hms.setting import described

#: PyIceberg reads `py-catalog-impl` from its keywords alone. Where it is missing, a uri of this scheme is an error, and
#: a plain `thrift://` loads PyIceberg's own HiveCatalog.
SCHEME: Final = "iceberg-hms+thrift://"
PREFIX: Final = "iceberg-hms."
CONFIG_FILE: Final = "iceberg-hms.config-file"

_STORES: Final = ("s3.", "hdfs.")
_SECONDS: Final = ("s3.connect-timeout", "s3.request-timeout")
#: PyIceberg's properties for all of AWS's services, below those for S3.
_CLIENT: Final = {
    f"client.{name}": f"s3.{name}"
    for name in ("region", "access-key-id", "secret-access-key", "session-token", "role-arn", "role-session-name")
}
#: What says how to reach a store, and the coordinator cannot do: it would commit elsewhere than PyIceberg writes, or
#: nowhere.
_REFUSED: Final = (
    "s3.profile-name",
    "client.profile-name",
    "s3.proxy-uri",
    "s3.signer",
    "s3.server-side-encryption",
    "s3.sse-kms-key-id",
    "hdfs.kerberos_ticket",
    "hive.kerberos-authentication",
)


def merged(name: str, given: Mapping[str, str | None]) -> dict[str, str]:
    """The properties of a catalog of this name: those of `.pyiceberg.yaml` and of the environment, which PyIceberg does
    not hand on to a `py-catalog-impl`, and over them those that the caller gave."""
    return configured_properties(name) | {key: str(value) for key, value in given.items() if value is not None}


def settings_of(properties: Mapping[str, str]) -> Settings:
    """Our settings from a catalog's properties; the environment (ICEBERG_HMS_...) and a TOML file supply the others.
    Raises ConfigError for a property that the coordinator cannot follow."""
    for name in _REFUSED:
        if properties.get(name, "").lower() not in ("", "false"):
            raise ConfigError(
                f"`{name}` of the PyIceberg catalog means nothing to the coordinator, which reads and writes the same "
                "store",
                next_step="leave it out, or take PyIceberg's REST catalog and `iceberg-hms serve`",
            )
    found = {
        "uri": properties.get("uri", "").replace(SCHEME, "thrift://"),
        "warehouse": properties.get("warehouse"),
        "user": properties.get("ugi", "").partition(":")[0],
    }
    found |= {ours: properties.get(theirs) for theirs, ours in _CLIENT.items()}
    known = {setting.key for setting in described(Settings)}
    found |= {key: value for key, value in properties.items() if key.startswith(_STORES) and key in known}
    # PyIceberg's documentation writes `60.0`.
    found |= {key: properties[key].removesuffix(".0") for key in _SECONDS if key in properties}
    if properties.get("s3.force-virtual-addressing", "").lower() == "true":
        found["s3.path-style-access"] = "false"
    found |= {key.removeprefix(PREFIX): value for key, value in properties.items() if _is_ours(key)}
    file = properties.get(CONFIG_FILE)
    return Settings.load(
        {key: value for key, value in found.items() if value}, file=None if file is None else Path(file)
    )


def file_io_properties(settings: Settings) -> dict[str, str]:
    """What PyIceberg's FileIO needs to reach the stores of these settings."""
    of_stores = [setting for setting in described(Settings) if setting.key.startswith(_STORES)]
    chosen = {setting.key: getattr(settings, setting.attribute) for setting in of_stores}
    found = {setting.key: str(chosen[setting.key]) for setting in of_stores if chosen[setting.key] != setting.default}
    if settings.s3_uses_path_style is False:
        found["s3.force-virtual-addressing"] = "true"
    return found


def _is_ours(key: str) -> bool:
    return key.startswith(PREFIX) and key != CONFIG_FILE
