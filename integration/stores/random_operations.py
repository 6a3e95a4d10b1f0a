"""The operations' random test (tests/random_operations) with all files in a bucket of a store of its own.

make outcomes-s3 STEPS=2000 SEED=7 TRIALS=200
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from integration.stores.minio import local_object_store
from tests.random_operations.__main__ import main

BUCKET = "outcomes"


def run() -> int:
    """Runs it with the options of this command. Returns 0 if nothing differs, else 1."""
    with tempfile.TemporaryDirectory(prefix="iceberg-hms ") as folder, local_object_store(Path(folder)) as store:
        store.make_bucket(BUCKET)
        os.environ |= {"AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key}
        return main([*sys.argv[1:], "--store", f"{store.endpoint}/{BUCKET}"])


if __name__ == "__main__":
    sys.exit(run())
