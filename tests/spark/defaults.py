"""What Spark reads of the files that we write."""

from __future__ import annotations

import re


def parse_defaults_file(text: str) -> dict[str, str]:
    """The settings of a spark-defaults.conf, as far as `defaults_file` writes them: one a line, `#` for comments."""
    settings = {}
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            key, _, value = line.strip().replace("\t", " ").partition(" ")
            settings[key] = re.sub(r"\\(.)", r"\1", value.strip())
    return settings
