"""What the database of any metastore holds of a name, a comment or a parameter.

A metastore answers what its database refuses only after its own retries (20 s), and HMS 4 on PostgreSQL so that the
outcome is unknown. So nothing is sent that some release cannot hold. The figures are the smallest in the schema scripts
of Hive 2.3, 3.1 and 4.0 for Derby, PostgreSQL, MySQL, Oracle and SQL Server, and in `package.jdo`, by which Derby makes
its tables without a script. docs/metastore.md says what they are for.

Lengths are bytes of UTF-8. Oracle counts bytes, Derby and SQL Server count UTF-16 units, PostgreSQL and MySQL count
characters, and bytes are never fewer. PostgreSQL holds no NUL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from iceberg_hms.coordinator.ports import TABLE_NAME_MAX, TableName
from iceberg_hms.errors import InvalidInput
from iceberg_hms.format.locations import LONGEST_BYTES

#: HIVE_LOCKS.HL_TABLE before Hive 4. TBLS.TBL_NAME has twice as much, so a longer table is made, and never locked.
LOCKED_NAME_MAX: Final = 128
#: TBLS.OWNER, COLUMNS_V2.COLUMN_NAME and TYPE_NAME (a CLOB but in Derby without a script).
OWNER_MAX: Final = 767
COLUMN_NAME_MAX: Final = 767
TYPE_MAX: Final = 32_672
#: COLUMNS_V2.COMMENT, before Hive 4 and since.
COMMENT_MAX: Final = 256
HIVE_4_COMMENT_MAX: Final = 4_000
#: SDS.LOCATION, DBS.DB_LOCATION_URI.
LOCATION_MAX: Final = LONGEST_BYTES
#: TABLE_PARAMS.PARAM_KEY and PARAM_VALUE (a CLOB but in Derby without a script).
KEY_MAX: Final = 256
VALUE_MAX: Final = 32_672
#: How many properties of a table, view or namespace are parameters. Each is a row of the metastore's database, which
#: writes them one by one, while calls for other tables wait.
PARAMETERS_MAX: Final = 1_000
#: DBS.DESC and OWNER_NAME; DATABASE_PARAMS.PARAM_KEY and PARAM_VALUE.
DATABASE_COMMENT_MAX: Final = 4_000
DATABASE_OWNER_MAX: Final = 128
DATABASE_KEY_MAX: Final = 180
DATABASE_VALUE_MAX: Final = 4_000

_CUT: Final = "..."


def fits(text: str, most: int) -> bool:
    """Whether a column of `most` bytes holds a text."""
    if "\0" in text:
        return False
    if text.isascii():
        return len(text) <= most
    try:
        return len(text.encode()) <= most
    except UnicodeEncodeError:
        return False


def is_key(text: str, most: int = KEY_MAX) -> bool:
    """Whether a text can be a parameter's key on every database.

    MySQL's script asks for Latin letters. Derby, MySQL and SQL Server take keys that differ by spaces at their end for
    one. Oracle has no empty text."""
    return 0 < len(text) <= most and text.isascii() and text.isprintable() and text == text.strip()


def cut(text: str, most: int) -> str:
    """As much of a text as a column of `most` bytes holds, with dots at its end if something is missing."""
    if fits(text, most):
        return text
    clean = text.replace("\0", "").encode(errors="replace")
    if len(clean) <= most:
        return clean.decode()
    return clean[: most - len(_CUT)].decode(errors="ignore") + _CUT


def require(what: str, text: str, most: int) -> None:
    """Raises InvalidInput if a column of `most` bytes does not hold a text. what: names it in the message."""
    if not fits(text, most):
        raise InvalidInput(
            f"The metastore cannot store {what}: it has {len(text.encode(errors='replace'))} bytes or a NUL",
            next_step=f"use at most {most} bytes of UTF-8, without NUL",
        )


def require_lockable(name: TableName, has_wide_columns: Callable[[], bool]) -> None:
    """Raises InvalidInput for a table's name that the metastore cannot lock. has_wide_columns: asks it for its release,
    which only names of more than half the length need."""
    if not fits(name.name, LOCKED_NAME_MAX):
        require("the table's name", name.name, TABLE_NAME_MAX if has_wide_columns() else LOCKED_NAME_MAX)


def require_key(what: str, key: str, most: int) -> None:
    """Raises InvalidInput if a text cannot be the key of a parameter with at most this many characters."""
    if not is_key(key, most):
        raise InvalidInput(
            f"The metastore cannot store {what} {key[:100]!r}",
            next_step=f"use at most {most} printable ASCII characters, without spaces around them",
        )
