"""The table of statements, by chapter. Each chapter has databases of its own and needs no other chapter.

`integration/session_catalog/run.py` runs them in a session of each kind.
"""

from __future__ import annotations

from typing import Final

from integration.session_catalog.chapters import (
    altering,
    data_frames,
    databases,
    hive_tables,
    metadata_names,
    migration,
    names,
    procedures,
    reading,
    rows,
    sample,
    tables,
)
from integration.session_catalog.chapters.chapter import PYTHON as PYTHON
from integration.session_catalog.chapters.chapter import Chapter as Chapter

CHAPTERS: Final = (
    *sample.CHAPTERS,
    *tables.CHAPTERS,
    *hive_tables.CHAPTERS,
    *altering.CHAPTERS,
    *rows.CHAPTERS,
    *reading.CHAPTERS,
    *procedures.CHAPTERS,
    *migration.CHAPTERS,
    *metadata_names.CHAPTERS,
    *names.CHAPTERS,
    *databases.CHAPTERS,
    *data_frames.CHAPTERS,
)
