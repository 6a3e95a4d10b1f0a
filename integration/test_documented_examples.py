"""Every block of code of the documents runs as it is printed, in the shells of a new user: integration/documents.py.

A page of docs/ goes on where README's five minutes end: with their metastore, their table and their `python`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import iceberg_hms
from iceberg_hms.rest.settings import load
from iceberg_hms.rest.warehouses import load_warehouses
from iceberg_hms.spark.configuration import defaults_file
from integration import interop
from integration.documents import (
    CHECKED,
    ELSEWHERE,
    ENGINES,
    INERT,
    MINIO,
    ROOT,
    RUN,
    Block,
    NewUser,
    blocks_of,
    new_user,
    read_blocks,
)
from integration.faults import until
from integration.spark_fixtures import SETTINGS
from integration.stores.minio import local_object_store

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
#: What nobody may hide in a block that does not run.
COMMAND = re.compile(r"^\s*(iceberg-hms|python\S*|pip|make|spark-\w+|docker|kubectl|curl|import|from)\s", re.MULTILINE)
TOUR = ("README.md", "## Five minutes")

#: What PyIceberg reads of logging.events after a page.
MESSAGES = {
    "docs/branches.md": ["first", "monday", "thursday", "wednesday"],
    "docs/expressions.md": [],
    "docs/files.md": ["tuesday"],
    "docs/maintenance.md": ["first", "second", "third"],
}


def run_here(page: str, engines: bool) -> list[Block]:
    """The blocks of a page to run. engines: those too that need an engine."""
    left_out = {**ELSEWHERE, **({} if engines else ENGINES)}
    return [block for block in read_blocks(page) if block.language in RUN and not block.needs(left_out)]


QUICK = [page for page in PAGES if run_here(page, engines=False)]
SLOW = [page for page in PAGES if any(block.needs(ENGINES) for block in run_here(page, engines=True))]


def tour() -> list[Block]:
    """What leads to a page of docs/: the table of README's five minutes."""
    return [block for block in read_blocks(*TOUR) if block.language == "python"]


@contextmanager
def lake(metastore: Any, zookeeper: Any, folder: Path) -> Iterator[Path]:
    """The file of settings that README's five minutes leave. In the end the databases that a page made are gone."""
    # The suite's own warehouse has a space in its name: Spark takes the properties of no database there.
    where = {"uri": metastore.uri, "warehouse": f"file:{folder}/warehouse", "zookeeper.hosts": zookeeper.hosts}
    config = folder / "lake.toml"
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in where.items()))
    with iceberg_hms.connect(config_file=config) as catalog:
        before = set(catalog.list_namespaces())
        try:
            yield config
        finally:
            for namespace in set(catalog.list_namespaces()) - before:
                for name in catalog.list_tables(namespace):
                    catalog.drop_table(name)
                catalog.drop_namespace(namespace)


@pytest.mark.parametrize("page", QUICK)
def test_a_page_runs_as_written(page: str, metastore: Any, zookeeper: Any, tmp_path: Path) -> None:
    if not page.startswith("docs/"):
        with new_user(tmp_path, {}) as user:
            run_all(user, run_here(page, engines=False))
        return
    with (
        lake(metastore, zookeeper, tmp_path) as config,
        new_user(tmp_path, {}, ICEBERG_HMS_CONFIG=str(config)) as user,
    ):
        run_all(user, [*tour(), *run_here(page, engines=False)])
        if page in MESSAGES:
            rows = interop.pyiceberg_catalog(metastore).load_table("logging.events").scan().to_arrow()
            assert sorted(rows["message"].to_pylist()) == MESSAGES[page]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", SLOW)
def test_a_page_runs_as_written_with_its_engines(page: str, metastore: Any, zookeeper: Any, tmp_path: Path) -> None:
    (tmp_path / "spark").mkdir()
    settings = {**SETTINGS, "spark.local.dir": str(tmp_path / "spark")}
    (tmp_path / "spark" / "spark-defaults.conf").write_text(defaults_file(settings), encoding="utf-8")
    (tmp_path / "store").mkdir()
    with (
        local_object_store(tmp_path / "store", key="minioadmin", secret="minioadmin") as store,
        lake(metastore, zookeeper, tmp_path) as config,
    ):
        store.make_bucket("lake")
        environ = {"SPARK_CONF_DIR": str(tmp_path / "spark")}
        if page.startswith("docs/"):
            environ["ICEBERG_HMS_CONFIG"] = str(config)
        with new_user(tmp_path, {MINIO: store.endpoint.rpartition(":")[2]}, **environ) as user:
            run_all(user, [*(tour() if page.startswith("docs/") else []), *run_here(page, engines=True)])


def run_all(user: NewUser, blocks: list[Block]) -> None:
    for block in blocks:
        user.run(block)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_names_a_language_that_has_a_rule(page: str) -> None:
    blocks = read_blocks(page)
    assert [block for block in blocks if block.language not in RUN | CHECKED | INERT] == []
    assert [block for block in blocks if block.language in INERT and COMMAND.search(block.code)] == []


@pytest.mark.parametrize("page", PAGES)
def test_settings_load_and_json_parses(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICEBERG_HMS_CONFIG", raising=False)
    for block in read_blocks(page):
        if block.language == "json":
            json.loads(block.code)
        elif block.language == "toml":
            tomllib.loads(block.code)
            file = tmp_path / "settings.toml"
            file.write_text(block.code, encoding="utf-8")
            load_warehouses(load({}, file=file), file=file)


def test_only_these_blocks_run_nowhere() -> None:
    """Find a way to run a block before you add it here."""
    found = {f"{page}: {need}" for page in PAGES for block in read_blocks(page) for need in block.needs(ELSEWHERE)}
    assert found == {
        "docs/authentication.md: a service of the reader's",
        "docs/deploying.md: root's rights on a host with systemd",
        "docs/deploying.md: a container engine and a cluster",
        "docs/migration.md: a service of the reader's",
    }


@pytest.mark.parametrize("page", PAGES)
def test_the_files_that_blocks_take_from_the_checkout_are_there(page: str) -> None:
    named = [path for block in read_blocks(page) for path in re.findall(r"(?<![/\w])conf/[\w./-]*\w", block.code)]
    assert [path for path in named if not (ROOT / path).exists()] == []


# The rules bite.


@pytest.mark.parametrize(
    ("language", "code", "needed"),
    [
        ("sh", "spark-sql -e 'SELECT 1'", ["Spark"]),
        ("python", "spark.table('a.b')", ["Spark"]),
        ("sql", "SELECT 1", ["Spark"]),
        ("sh", "iceberg-hms doctor --warehouse s3://lake/w", ["S3"]),
        ("sh", "true   # as kubectl does, for Spark on s3://lake at example.com", []),
        ("text", "kubectl", []),
        ("sh", "kubectl apply\nsystemctl start", [*ELSEWHERE][:2]),
        ("sh", "iceberg-hms serve --set rest.oidc.issuer=https://login.example.com", [*ELSEWHERE][2:]),
        ("sh", "echo kubectl", []),
    ],
)
def test_a_block_says_by_its_commands_what_it_needs(language: str, code: str, needed: list[str]) -> None:
    block = Block("page.md:1", language, code)
    assert [*block.needs(ENGINES), *block.needs(ELSEWHERE)] == needed


def test_a_block_that_is_not_fenced_has_no_language() -> None:
    page = "# A\n\n```sh\ntrue\n```\n\nText:\n\n    indented\n\n- a list\n\n  ```python\n  1\n  ```\n\n```\nnone\n```\n"
    assert [(block.place, block.language) for block in blocks_of(page, "p.md")] == [
        ("p.md:3", "sh"),
        ("p.md:9", ""),
        ("p.md:13", "python"),
        ("p.md:17", ""),
    ]


@pytest.mark.parametrize(
    ("language", "code", "said"),
    [
        ("sh", "false\ntrue", ""),
        ("sh", "echo $not_there", "not_there: unbound variable"),
        ("sh", "ls no-such-file | cat", "no-such-file"),
        ("sh", "make no-such-target", "no-such-target"),
        ("sh", "iceberg-hms serve --no-such-option", "--no-such-option"),
        ("sh", "iceberg-hms tables", "no metastore is named"),
        ("python", "no_such_name", "NameError"),
        ("python", "raise SystemExit(0)", ""),
        ("python", "for n in range(2):\n    n\nm = n", "SyntaxError"),
        ("python", "def", "SyntaxError"),
    ],
)
def test_a_block_that_fails_is_found(tmp_path: Path, language: str, code: str, said: str) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:7") as caught, new_user(tmp_path, {}) as user:
        user.run(Block("page.md:7", language, code))
    assert said in str(caught.value)


SERVER = """
iceberg-hms() { sleep 300 & echo $! > pid; echo '"event":"listening"'; wait; }
iceberg-hms serve
"""


@pytest.mark.parametrize("code", ["sleep 300 &\necho $! > pid", SERVER])
def test_what_a_block_starts_ends_with_its_user(tmp_path: Path, code: str) -> None:
    with new_user(tmp_path, {}) as user:
        user.run(Block("p:1", "sh", code))
        process = Path("/proc") / (tmp_path / "checkout" / "pid").read_text().strip()
    until(lambda: not process.exists(), "the end of what the block started")


def test_what_a_block_exports_and_writes_is_there_in_the_next_ones(tmp_path: Path) -> None:
    with new_user(tmp_path, {}) as user:
        run_all(
            user,
            [
                Block("p:1", "sh", ". .venv/bin/activate\nmake setup\nexport GREETING='a\nb'\necho 1 > file"),
                Block("p:2", "python", "import os\nassert os.environ['GREETING'] == 'a\\nb'\nn = open('file').read()"),
                Block("p:3", "sh", 'test "$GREETING" = "a\nb"'),
                Block("p:4", "python", "assert n == '1\\n'"),
            ],
        )
