"""A PyIceberg client at its defaults that appends one row after the other, until its input ends.

    python -m benchmarks.appender URI TABLE NAME

It prints a line when it begins, and at its end as JSON which rows were acknowledged, which were refused, and how long
each acknowledged one took.
"""

from __future__ import annotations

import json
import sys
import threading
from itertools import count
from time import monotonic

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException

SCHEMA = pa.schema([("who", pa.string())])
TOKEN = "a-token-for-benchmarks-alone"  # noqa: S105 - it guards nothing


def main() -> None:
    uri, name, writer = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    table = load_catalog("hms", type="rest", uri=uri, token=TOKEN).load_table(name)
    acknowledged, refused, seconds = [], [], []
    print("begins", flush=True)
    for number in count():
        row = f"{writer}-{number}"
        begin = monotonic()
        try:
            table.append(pa.table({"who": [row]}, schema=SCHEMA))
        except CommitFailedException:
            refused.append(row)
            table.refresh()
        else:
            acknowledged.append(row)
            seconds.append(monotonic() - begin)
        if ended.is_set():
            break
    print(json.dumps({"acknowledged": acknowledged, "refused": refused, "seconds": seconds}))


if __name__ == "__main__":
    main()
