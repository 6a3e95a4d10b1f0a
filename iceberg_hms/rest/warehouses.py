"""Several warehouses in one server: a section of the TOML file for each.

    uri = "thrift://metastore-1:9083"            # the warehouse `default`
    warehouse = "file:/data/warehouse"

    [warehouses.sales]
    uri = "thrift://metastore-2:9083"
    warehouse = "file:/data/sales"

A section inherits what the default warehouse has, wherever that comes from, and what it says itself wins. What the
server has only once, such as its port, cannot differ between warehouses.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from iceberg_hms.config import Settings
from iceberg_hms.errors import ConfigError
from iceberg_hms.rest.settings import OF_ONE_WAREHOUSE, RestSettings, all_settings, divided
from iceberg_hms.setting import Setting, warehouse_sections

#: The warehouse of the file's top level, which paths without a prefix serve.
DEFAULT_WAREHOUSE: Final = "default"
#: Each warehouse has connections, threads and caches of its own.
WAREHOUSES_MAX: Final = 64

#: A name is a segment of paths, and a word of scopes.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
#: What paths without a prefix begin with after `/v1/`.
_RESERVED: Final = frozenset({DEFAULT_WAREHOUSE, "config", "namespaces", "oauth", "tables", "transactions", "views"})


def of_one_warehouse(setting: Setting) -> bool:
    """Whether warehouses of one server may differ in a setting."""
    return not setting.key.startswith("rest.") or setting.key in OF_ONE_WAREHOUSE


def load_warehouses(
    default: tuple[Settings, RestSettings], *, environ: Mapping[str, str] | None = None, file: Path | None = None
) -> dict[str, tuple[Settings, RestSettings]]:
    """The settings of each warehouse beside the default one, by name; empty without sections.

    default: what they inherit. environ, file: as for `Settings.load`.
    Raises ConfigError for a malformed name or section, for a setting that the server has only once, and for too many.
    """
    found: dict[str, tuple[Settings, RestSettings]] = {}
    for name, values in warehouse_sections(all_settings(), os.environ if environ is None else environ, file).items():
        _check_name(name)
        _check_keys(name, values)
        library, server = divided(values)
        try:
            found[name] = dataclasses.replace(default[0], **library), dataclasses.replace(default[1], **server)
        except ConfigError as error:
            raise ConfigError(f"warehouse {name!r}: {error.message}", next_step=error.next_step) from error
    if len(found) >= WAREHOUSES_MAX:
        raise ConfigError(
            f"the configuration file has {len(found)} warehouses beside the default one, more than "
            f"{WAREHOUSES_MAX - 1}",
            next_step="start another server for some of them",
        )
    return found


def is_warehouse_name(name: str) -> bool:
    """Whether a warehouse beside the default one could have this name."""
    return _NAME.fullmatch(name) is not None


def _check_name(name: str) -> None:
    if name in _RESERVED:
        raise ConfigError(
            f"a warehouse cannot have the name {name!r}",
            next_step="the top level of the file is the default warehouse"
            if name == DEFAULT_WAREHOUSE
            else "choose a name that no path of the protocol begins with",
        )
    if not is_warehouse_name(name):
        raise ConfigError(
            f"not a name of a warehouse: {name[:128]!r}",
            next_step="use at most 63 of a-z, 0-9, '_' and '-', with a letter or digit first",
        )


def _check_keys(name: str, values: Mapping[str, object]) -> None:
    for setting in all_settings():
        if setting.attribute in values and not of_one_warehouse(setting):
            raise ConfigError(
                f"`{setting.key}` is set for warehouse {name!r}, but the server has it only once",
                next_step="set it at the top level of the file",
            )
