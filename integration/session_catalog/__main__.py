"""Run chapters in a session of each kind, and print what differs from Java's HiveCatalog.

python -m integration.session_catalog [CHAPTER...] [--kinds embedded,stand-alone] [--out FILE]
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from iceberg_hms.local.metastore import LocalMetastore
from integration.session_catalog.compare import (
    HIVE,
    OURS,
    RECORDED,
    allowing,
    chosen,
    differences,
    lost_rows,
    run_kinds,
)
from integration.session_catalog.sessions import served


def main() -> None:
    parser = argparse.ArgumentParser(
        description=inspect.cleandoc(__doc__ or ""), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(OURS))
    parser.add_argument("--out", type=Path, help="file for all answers, as JSON")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    chapters = chosen(["sample"] if options.record else options.chapters)
    kinds = [HIVE, *([] if options.record else options.kinds)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-hms-")))
        metastore = stack.enter_context(LocalMetastore(folder / "hms"))
        uri = stack.enter_context(served(metastore, folder / "server.log", *allowing(folder)))
        names = [chapter.name for chapter in chapters]
        runs = run_kinds(metastore, kinds, uri, names, folder)
        lines = []
        for kind in kinds[1:]:
            for found in differences(runs[kind], runs[HIVE]):
                lines.append(f"{found.chapter} {found.number}, {kind}: {found.ours.statement}")
                lines += [
                    f"    {who}: {one} | {one.message}" for who, one in (("ours", found.ours), ("hive", found.hive))
                ]
        lines += lost_rows(metastore, kinds, chapters, folder)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    if options.record:
        answers = runs[HIVE].answers["sample"]
        RECORDED.write_text(json.dumps([asdict(one) for one in answers], indent=1) + "\n", encoding="utf-8")
    if options.out:
        made = {
            kind: {name: [asdict(one) for one in answers] for name, answers in run.answers.items()}
            for kind, run in runs.items()
        }
        options.out.write_text(json.dumps(made, indent=1))


if __name__ == "__main__":
    main()
