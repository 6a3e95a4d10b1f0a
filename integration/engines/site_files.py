"""Hadoop's XML files of settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape


def write_site(path: Path, settings: Mapping[str, str]) -> None:
    """Write a file such as core-site.xml."""
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>", ""]), encoding="utf-8")
