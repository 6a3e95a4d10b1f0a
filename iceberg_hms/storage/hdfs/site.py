"""What Hadoop's own files of settings, and ours, say of where HDFS is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from iceberg_hms.config import Settings
from iceberg_hms.errors import InvalidInput, StorageRefused
from iceberg_hms.format.locations import Location, parse

#: The port of a name node that a location or Hadoop's settings name without one.
_DEFAULT_PORT: Final = 8_020
_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_NAME_NODES: Final = "dfs.ha.namenodes."
_FAILOVERS: Final = "dfs.client.failover.max.attempts"


class HdfsSite:
    """Hadoop's settings, and the default name node of ours.

    folder: with core-site.xml and hdfs-site.xml, as hdfs-native finds it too; None if there is none. Raises
    StorageRefused for files that cannot be read.
    """

    def __init__(self, settings: Settings, environ: Mapping[str, str] = os.environ) -> None:
        self._host = settings.hdfs_host
        self._port = settings.hdfs_port
        home = environ.get("HADOOP_HOME")
        found = settings.hdfs_config_dir or environ.get("HADOOP_CONF_DIR") or (f"{home}/etc/hadoop" if home else None)
        if settings.hdfs_config_dir and not Path(settings.hdfs_config_dir).is_dir():
            raise StorageRefused(
                f"There is no folder {settings.hdfs_config_dir}",
                next_step="set `hdfs.config-dir` to the folder with core-site.xml and hdfs-site.xml",
            )
        self.folder = found
        self._hadoop: dict[str, str] = {}
        for name in _FILES if found else ():
            self._hadoop |= _read(Path(found or "") / name)

    def url(self, location: Location) -> str:
        """Where hdfs-native connects to for a location: a name node with its port, a name service, or a table of
        mounts. Raises InvalidInput for a location without an authority where no setting names one."""
        authority = location.authority
        if not authority and location.scheme == "hdfs" and self._host:
            authority = self._host if self._is_service(self._host) else f"{self._host}:{self._port}"
        if not authority:
            authority = self._default_authority(location.scheme)
        if location.scheme == "hdfs" and not self._is_service(authority) and not _has_port(authority):
            authority = f"{authority}:{_DEFAULT_PORT}"
        return f"{location.scheme}://{authority}"

    def for_client(self, url: str, turns: int) -> dict[str, str]:
        """The settings of a client of a URL besides those in the files. turns: how many name nodes of each name service
        to begin after, for one that hangs.

        The client asks each name node once. Before it asks one again it would sleep, which its coroutines cannot:
        hdfs-native 0.14 panics, for it polls them outside of its own runtime.
        """
        found: dict[str, str] = {}
        fewest = len(self._hadoop)
        for key, value in self._hadoop.items():
            if key.startswith(_NAME_NODES):
                names = value.split(",")
                at = turns % len(names)
                found[key] = ",".join(names[at:] + names[:at])
                fewest = min(fewest, len(names))
        scheme, _, authority = url.partition("://")
        is_alone = not found or (scheme == "hdfs" and not self._is_service(authority))
        return found | {_FAILOVERS: str(0 if is_alone else fewest - 1)}

    def _is_service(self, authority: str) -> bool:
        return f"{_NAME_NODES}{authority}" in self._hadoop

    def _default_authority(self, scheme: str) -> str:
        default = self._hadoop.get("fs.defaultFS", "")
        if default.startswith(f"{scheme}://"):
            authority = parse(f"{default.rstrip('/')}/").authority
            if authority:
                return authority
        raise InvalidInput(
            f"The location names no {scheme} filesystem, and no setting does",
            next_step="set `hdfs.host`, or `hdfs.config-dir` to the folder of a core-site.xml with fs.defaultFS",
        )


def _has_port(authority: str) -> bool:
    # An address of IPv6 has colons as well, in brackets.
    return ":" in authority.rpartition("]")[2]


def _read(path: Path) -> dict[str, str]:
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314 - the operator's own file
    except FileNotFoundError:
        return {}
    except (OSError, ElementTree.ParseError) as error:
        raise StorageRefused(f"Cannot read {path}: {error}", next_step="correct the file") from error
    found = {each.findtext("name", ""): each.findtext("value", "") for each in root.iter("property")}
    return {name.strip(): value.strip() for name, value in found.items()}
