"""PyIceberg's own tests of catalogs and of writing, from the source archive of the pinned release, on our adapter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from iceberg_hms.local.metastore import LocalMetastore
from integration.pyiceberg.upstream_plugin import OUTCOMES, URI, WAREHOUSE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: Where the archives stay once they are fetched; pip checks their hashes each time.
FETCHED = ROOT / "build" / "pyiceberg"
FETCH_SECONDS = 300
#: On an idle machine with two cores the tests take two minutes.
RUN_SECONDS = 1_200

FILES = (
    "integration/test_catalog.py",
    "catalog/test_catalog_behaviors.py",
    "integration/test_delete_count.py",
    "integration/test_deletes.py",
    "integration/test_partition_evolution.py",
    "integration/test_rest_schema.py",
    "integration/test_snapshot_operations.py",
    "integration/test_sort_order_update.py",
    "integration/test_statistics_operations.py",
    "integration/test_writes",
)

#: What of these files is not run: parts of tests' names, and why.
LEFT_OUT = {
    "memory_catalog": "their catalog",
    "sqlite_catalog_memory": "their catalog",
    "sqlite_catalog_file": "their catalog",
    "hive_catalog": "their catalog",
    "session_catalog_hive": "their catalog",
    "rest_test_catalog": "a catalog from the environment: the tests are those on `rest_catalog`, which becomes ours",
    "hierarchical": "a namespace in a namespace: the metastore has one level",
    "fixed_test_table": "the same: com.organization.department",
    "test_duckdb_url_import": "DuckDB reads the table",
    "test_sanitize_character_partitioned_avro_bug": "the same",
    "test_delete_metadata_multiple": "it looks at once for old metadata files, which we delete behind the answer",
}

#: What PyIceberg's tests spell otherwise: file -> text -> ours. The names of databases have no hyphens in Hive 2.3, and
#: those of ours none at all; each metastore has a database `default` from the start.
SPELLINGS = {
    "conftest.py": {f"my_iceberg_{kind}-": f"my_iceberg_{kind}_" for kind in ("database", "table", "view", "ns")},
    "integration/test_catalog.py": {"rename-": "rename_"},
    "catalog/test_catalog_behaviors.py": {'"default"': '"plain"', "default.": "plain."},
}

NESTED = ("hierarchical namespaces are not supported", "the metastore has one level of namespaces")
COMMENT = ("cannot change the comment of a namespace", "Hive 2.3 keeps the comment that a database was made with")
BEHAVIORS, CATALOG = "catalog/test_catalog_behaviors.py", "integration/test_catalog.py"
#: (file, test) -> text in its failure, and why it fails.
FAILING = {
    (CATALOG, "test_update_namespace_properties[rest_catalog]"): COMMENT,
    (CATALOG, "test_rest_custom_namespace_separator"): (
        "_namespace_separator",
        "how the REST protocol spells a namespace in a namespace",
    ),
    (BEHAVIORS, "test_create_tables_idempotency"): ("create_tables", "a method of SqlCatalog alone"),
    (BEHAVIORS, "test_create_table_without_namespace"): (
        "ValueError: Invalid path",
        "ValueError, as from PyIceberg's HiveCatalog",
    ),
    (BEHAVIORS, "test_create_table_with_default_warehouse_location[random_table_identifier]"): (
        ".startswith",
        "the test's second catalog has another warehouse; here all share one",
    ),
    (BEHAVIORS, "test_register_table[random_table_identifier]"): (
        'No FileSystem for scheme "s3"',
        "its metadata says that the table is on S3, which this metastore cannot reach",
    ),
    (BEHAVIORS, "test_register_existing_table[random_table_identifier]"): (
        'No FileSystem for scheme "s3"',
        "the same",
    ),
    (BEHAVIORS, "test_list_tables_under_a_namespace[random_table_identifier]"): NESTED,
    (BEHAVIORS, "test_create_namespaces_sharing_same_prefix[database_name]"): NESTED,
    (BEHAVIORS, "test_namespace_exists"): NESTED,
    (BEHAVIORS, "test_list_namespaces"): NESTED,
    (BEHAVIORS, "test_list_namespaces_fuzzy_match"): NESTED,
    (BEHAVIORS, "test_catalog_commit_table_applies_schema_updates[random_table_identifier]"): (
        "current_schema_id",
        "a new schema gets an id that no other has, as by Java; the test expects the second one of id 0",
    ),
    (BEHAVIORS, "test_concurrent_commit_table[random_table_identifier]"): (
        "current schema changed: expected id 0 != 1",
        "the message is Java's",
    ),
    (BEHAVIORS, "test_create_namespace[database_name]"): (
        "hive.metastore.database.owner",
        "a database has a location and an owner from the start",
    ),
    (BEHAVIORS, "test_load_empty_namespace_properties[database_name]"): ("hive.metastore.database.owner", "the same"),
    (BEHAVIORS, "test_create_namespace_with_comment_and_location[database_name]"): (
        "file:/test/location",
        "the metastore says of which file system a location is",
    ),
    (BEHAVIORS, "test_load_namespace_properties[database_name]"): ("file:/test/location", "the same"),
    (BEHAVIORS, "test_update_namespace_properties[database_name]"): COMMENT,
    (BEHAVIORS, "test_create_namespace_with_null_properties[database_name]"): (
        "NoneType",
        "TypeError, where SQL raises its IntegrityError",
    ),
    **{
        (BEHAVIORS, f"test_create_namespace_with_empty_identifier[{name}]"): (
            "ValueError: Invalid database" if name.startswith("empty") else "InvalidInput: not a valid name",
            "ValueError for a name that nothing can have, as from PyIceberg's HiveCatalog for ()",
        )
        for name in ("0", "1", " 0", " 1", "empty_namespace1", "empty_namespace3")
    },
    **{
        (BEHAVIORS, f"{test}[database_name]"): ("Namespace does not exist: ", "the words of the message")
        for test in (
            "test_get_namespace_metadata_raises_error_when_namespace_does_not_exist",
            "test_update_namespace_metadata_raises_error_when_namespace_does_not_exist",
        )
    },
    **{
        ("integration/test_writes/test_writes.py", f"test_merge_manifests_file_content[{version}]"): (
            "s3://warehouse/default/merge_manifest_a/data/",
            "it asks for the warehouse of PyIceberg's own servers",
        )
        for version in (1, 2)
    },
}

#: The names that Hive does not have.
SKIPPED = {
    "test_namespace_with_slash[rest_catalog]",
    "test_namespace_with_dot[rest_catalog]",
    "test_table_name_with_slash[rest_catalog]",
    "test_table_name_with_dot[rest_catalog]",
}
#: How many of the others there are in the pinned release.
PASSED = 618


def fetch() -> list[Path]:
    """The archives that `upstream.txt` names, PyIceberg's first."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-binary", "pyiceberg", "--require-hashes", "--dest", str(FETCHED)]
    subprocess.run([*command, "--requirement", str(HERE / "upstream.txt")], check=True, timeout=FETCH_SECONDS)
    return [*FETCHED.glob("pyiceberg-*.tar.gz"), *FETCHED.glob("*.whl")]


def unpack(archive: Path, folder: Path) -> Path:
    """The tests of an archive, alone: what they test is the package that is installed."""
    with tarfile.open(archive) as opened:
        wanted = [each for each in opened.getmembers() if each.name.split("/")[1:2] in (["tests"], ["pyproject.toml"])]
        opened.extractall(folder, wanted, filter="data")
    (top,) = folder.iterdir()
    for name, spellings in SPELLINGS.items():
        text = (top / "tests" / name).read_text(encoding="utf-8")
        for theirs, ours in spellings.items():
            assert theirs in text, (name, theirs)
            text = text.replace(theirs, ours)
        (top / "tests" / name).write_text(text, encoding="utf-8")
    return top


def run(top: Path, wheels: list[Path], metastore: LocalMetastore, folder: Path) -> dict[tuple[str, str], list[str]]:
    """Run the tests, and return for each (file, test) its outcome and the text of its failure."""
    outcomes = folder / "outcomes.json"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYICEBERG_"))},
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *wheels])),
        URI: metastore.uri,
        WAREHOUSE: metastore.warehouse,
        OUTCOMES: str(outcomes),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pyproject.toml", "--rootdir", ".", "-p", "no:cacheprovider"]
    command += ["-p", "integration.pyiceberg.upstream_plugin", "-k", f"not ({' or '.join(LEFT_OUT)})"]
    ended = subprocess.run(
        [*command, *(f"tests/{file}" for file in FILES)],
        cwd=top,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert outcomes.exists(), ended.stdout + ended.stderr
    found = json.loads(outcomes.read_text(encoding="utf-8"))
    return {(test.partition("::")[0], test.partition("::")[2]): outcome for test, outcome in found.items()}


@pytest.mark.slow
@pytest.mark.timeout(FETCH_SECONDS + RUN_SECONDS)
def test_all_pass_but_what_a_metastore_cannot_have(tmp_path: Path) -> None:
    archive, *wheels = fetch()
    top = unpack(archive, tmp_path / "archive")
    with LocalMetastore(tmp_path / "metastore") as metastore:
        outcomes = run(top, wheels, metastore, tmp_path)
    failed = {test: text for test, (outcome, text) in outcomes.items() if outcome == "failed"}
    others = {test: text for test, text in failed.items() if test not in FAILING or FAILING[test][0] not in text}
    assert not others, "\n\n".join(f"{test}\n{text}" for test, text in others.items())
    assert not FAILING.keys() - failed.keys(), "an exception that nobody needs"
    assert {test for (_, test), (outcome, _) in outcomes.items() if outcome == "skipped"} == SKIPPED
    assert sum(outcome == "passed" for outcome, _ in outcomes.values()) == PASSED
