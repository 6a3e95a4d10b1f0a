"""The Atlas table: 2.7 million files of a month, as metadata alone.

    python -m benchmarks atlas [--files 2698752] [--spread] [--processes 2] [--out build/benchmarks/atlas]

Our own writer makes the manifests, some 10,000 entries a second and core; there are no data files. Prints where the
metadata file is, which `register_table` of any catalog takes, and Java's StaticTableOperations without one. The folder
must not exist.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

from benchmarks import instruments
from integration.planning.atlas_table import FILES_EACH, MANIFEST_ENTRIES, PARTITIONS, Atlas, make


def main() -> None:
    parser = instruments.parser(__doc__)
    parser.add_argument("--files", type=int, default=PARTITIONS * FILES_EACH, help="the same number in each partition")
    parser.add_argument("--manifest-entries", type=int, default=MANIFEST_ENTRIES)
    parser.add_argument("--spread", action="store_true", help="each manifest has files of all partitions")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/atlas"))
    arguments = parser.parse_args()
    folder = arguments.out.absolute()
    if folder.exists():
        raise SystemExit(f"{folder} exists: give another folder with --out, or remove it")
    each = max(1, arguments.files // PARTITIONS)
    atlas = Atlas(f"file:{folder}", each, arguments.manifest_entries, arguments.spread)
    started = perf_counter()
    location = make(atlas, arguments.processes)
    seconds = perf_counter() - started
    size = sum(path.stat().st_size for path in folder.rglob("*.avro"))
    print(f"{atlas.files:,} files in {atlas.manifests} manifests, {size / 1e6:.0f} MB, in {seconds:.0f} s")
    print(location)
