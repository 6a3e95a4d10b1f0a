"""The user for whom this process works on HDFS without Kerberos.

hdfs-native takes him from the environment at each connection, and asks for no other: a process has one for all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import MutableMapping
from typing import Final

from iceberg_hms.errors import StorageRefused

_VARIABLE: Final = "HADOOP_USER_NAME"


class ProcessUser:
    """Holds what the first driver wanted. Safe to share between threads.

    environ: the variables of the process.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._environ = environ
        self._mutex = threading.Lock()
        self._found = ""
        self._user: str | None = None

    def become(self, user: str) -> None:
        """Work for a user; empty for the one of HADOOP_USER_NAME or of the operating system. Raises StorageRefused if
        this process works for another one: nobody gets another's rights by saying nothing."""
        with self._mutex:
            if self._user is None:
                self._found = self._environ.get(_VARIABLE, "")
                if user and self._found and user != self._found:
                    raise _refused(user, f"{self._found} by {_VARIABLE}")
                self._user = user or self._found
                if user:
                    self._environ[_VARIABLE] = user
            wanted = user or self._found
            if wanted != self._user:
                raise _refused(wanted, f"{self._user or 'that of the operating system'} by another warehouse")


def _refused(user: str, other: str) -> StorageRefused:
    return StorageRefused(
        f"The user of HDFS is {user or 'that of the operating system'} for this warehouse, and {other}",
        next_step="name the same `hdfs.user` in all warehouses, or run a process for each user",
    )


PROCESS_USER: Final = ProcessUser(os.environ)
