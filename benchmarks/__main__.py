"""The one entry point: `python -m benchmarks NAME [options]`; `python -m benchmarks NAME --help` describes one."""

from __future__ import annotations

import importlib
import sys

#: Name -> module and function, and one line for people.
BENCHMARKS = {
    "commit": ("commit", "main", "commits of many writers beside Java's and PyIceberg's HiveCatalog"),
    "appenders": ("stock_appenders", "main", "stock PyIceberg and Spark writers that append to one table"),
    "fairness": ("fairness", "main", "rewrites, deletes and HiveCatalog beside busy appenders"),
    "outside-writer": ("outside_writer", "outside_writer", "clients of the server beside a writer that bypasses it"),
    "single-writer": ("library", "single_writer", "one writer beside the bare metastore calls of its commits"),
    "many-writers": ("library", "many_writers", "many processes on one table beside one process"),
    "duplicate-check": ("library", "duplicate_check", "appends with and without the check for duplicate files"),
    "manifest-merging": ("manifest_merging", "manifest_merging", "appends with and without merging of manifests"),
    "manifest-decoders": ("manifest_decoders", "main", "libraries that decode manifests, side by side"),
    "filtered-changes": ("filtered_changes", "filtered_changes", "deletes and overwrites of 100,000 files by a filter"),
    "table-loads": ("table_loads", "table_loads", "loads of a long table beside Iceberg's reference REST server"),
    "watch": ("watch", "watch", "polls of many tables for new snapshots, beside a load of each table"),
    "spark-insert": ("spark_inserts", "main", "a short INSERT in Spark's session catalog beside Java's HiveCatalog"),
    "object-store": ("object_store", "main", "commits to tables in a bucket, near and far"),
    "add-files": ("add_files", "main", "appends of existing files in a bucket beside PyIceberg's add_files"),
    "pyiceberg": ("pyiceberg_programs", "main", "PyIceberg programs on the adapter beside its HiveCatalog"),
    "migration": ("migration", "main", "a Hive table of many files taken over, beside Spark's add_files"),
    "s3-clients": ("s3_clients", "main", "the client libraries for S3 side by side"),
    "planners": ("planners", "main", "commits of one table while clients plan scans of another"),
    "atlas": ("atlas", "main", "makes the Atlas table: 2.7 million files, as metadata alone"),
    "scan-plans": ("scan_plans", "main", "plans of scans of the Atlas table beside Java's and PyIceberg's planners"),
    "spark-plans": ("spark_plans", "main", "selective queries of stock Spark, planned by its driver and by the server"),
    "maintenance": ("table_maintenance", "main", "expiry and orphan files of a large table beside Spark's procedures"),
    "walk": ("walk", "walk", "what one append enters: modules, functions, classes, calls, hops to the socket"),
    "soak": ("soak", "soak", "many idle and busy clients for minutes: memory and latencies"),
}
#: Processes that benchmarks start.
PROCESSES = {
    "distance": ("distance", "run_distance"),
    "filtered-change": ("filtered_changes", "run_filtered_change"),
    "maintainer": ("table_maintenance", "run_maintainer"),
    "migration-driver": ("migration", "run_driver"),
    "planner-clients": ("planners", "run_planners"),
    "s3-client": ("s3_clients", "run_s3_client"),
    "scan-planner": ("scan_plans", "run_scan_planner"),
    "session-inserts": ("spark_inserts", "session_inserts"),
    "spark-planner": ("spark_plans", "run_spark_planner"),
    "worker": ("writers", "run_worker"),
    "watched-server": ("instruments", "run_watched_server"),
}


def main() -> None:
    name, *arguments = sys.argv[1:] or [""]
    if name in BENCHMARKS:
        module, function, _ = BENCHMARKS[name]
    elif name in PROCESSES:
        module, function = PROCESSES[name]
    else:
        lines = [f"  {each:16} {about}" for each, (_, _, about) in BENCHMARKS.items()]
        raise SystemExit("\n".join(["usage: python -m benchmarks NAME [options]", *lines]))
    sys.argv = [f"python -m benchmarks {name}", *arguments]
    getattr(importlib.import_module(f"benchmarks.{module}"), function)()


if __name__ == "__main__":
    main()
