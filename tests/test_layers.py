"""The import contracts bite: in a small package of the same rooms, each bad import is found by its contract.

`make layers` holds the project itself to them.
"""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CONTRACTS = ".importlinter"
#: The folders that import-linter reads, beside the package.
FOLDERS = ("simulation", "tests", "integration", "benchmarks", "labs")

#: The rooms, and what they are allowed to do.
GOOD = {
    "__main__.py": "from iceberg_hms.cli import main\n",
    "config.py": "from iceberg_hms import setting\n",
    "setting.py": "from iceberg_hms import errors\n",
    "clock.py": "import time\n",
    "name_pattern.py": "",
    "work.py": "from iceberg_hms import errors\n",
    "thread_pool.py": "from iceberg_hms import clock\n",
    "memory_budget.py": "from iceberg_hms import work\n",
    "errors.py": "",
    "format/json_fields.py": "from iceberg_hms import errors\n",
    "format/locations.py": "",
    "format/file_bounds.py": "from iceberg_hms import config\n",
    "format/cached_property.py": "",
    "format/schema/schema.py": "from iceberg_hms.format import json_fields\n",
    "format/avro/avro_file.py": "import fastavro\nimport pyarrow\nfrom iceberg_hms.format.schema import schema\n",
    "format/metadata/table_metadata.py": "from iceberg_hms.format.schema import schema\n",
    "format/manifests/manifest.py": "from iceberg_hms.format.avro import avro_file\n",
    "format/updates/apply.py": "from iceberg_hms.format.metadata import table_metadata\n",
    "format/views/apply.py": "from iceberg_hms.format.metadata import table_metadata\n",
    "expressions/binding.py": "from iceberg_hms.format.schema import schema\n",
    "changes/change.py": "from iceberg_hms.expressions import binding\n",
    "changes/evolution.py": "",
    "changes/manifest_delta.py": "",
    "changes/partition_set.py": "",
    "changes/updates.py": "from iceberg_hms.changes import change\n",
    "changes/new_manifests.py": "from iceberg_hms.changes import change\n",
    "changes/referenced_specs.py": "from iceberg_hms.changes import new_manifests\n",
    "changes/summary.py": "from iceberg_hms.changes import partition_set\n",
    "changes/requirements.py": "from iceberg_hms.changes import updates\n",
    "changes/reruns.py": "from iceberg_hms.changes import summary\n",
    "changes/sequence_numbers.py": "from iceberg_hms.changes import requirements\n",
    "changes/clients/rebase.py": "from iceberg_hms.changes import sequence_numbers\n",
    "changes/operations/snapshot_operation.py": "from iceberg_hms.changes import change\n",
    "changes/operations/metadata_operation.py": "from iceberg_hms.changes import change\n",
    "changes/operations/properties.py": "from iceberg_hms.changes.operations import metadata_operation\n",
    "changes/operations/statistics.py": "from iceberg_hms.changes.operations import metadata_operation\n",
    "changes/operations/schema/update_spec.py": "from iceberg_hms.changes.operations import metadata_operation\n",
    "changes/operations/manifests/conflicts.py": "from iceberg_hms.changes.operations import snapshot_operation\n",
    "changes/operations/files/append.py": "from iceberg_hms.changes.operations.manifests import conflicts\n",
    "changes/operations/snapshots/refs.py": "from iceberg_hms.changes.operations.files import append\n",
    "coordinator/ports.py": "from iceberg_hms.changes import change\n",
    "coordinator/hive_ports.py": "from iceberg_hms.coordinator import ports\n",
    "coordinator/view_ports.py": "from iceberg_hms.coordinator import ports\n",
    "coordinator/log_and_continue.py": "",
    "coordinator/lease_check.py": "from iceberg_hms.coordinator import ports\n",
    "coordinator/locations/placement.py": "from iceberg_hms.coordinator import ports\n",
    "coordinator/reading/metadata_cache.py": "from iceberg_hms.coordinator import ports\n",
    "coordinator/outcome/outcome.py": "from iceberg_hms.coordinator.reading import metadata_cache\n",
    "coordinator/staging/invariants.py": "from iceberg_hms.coordinator.outcome import outcome\n",
    "coordinator/sending/status_check.py": "from iceberg_hms.coordinator.staging import invariants\n",
    "coordinator/files/cleanup.py": "from iceberg_hms.coordinator.staging import invariants\n",
    "coordinator/group/commit_group.py": "from iceberg_hms.coordinator.sending import status_check\n",
    "coordinator/operations/catalog_operations.py": "from iceberg_hms.coordinator.sending import status_check\n",
    "coordinator/scheduling/time_budget.py": "from iceberg_hms.coordinator.group import commit_group\n",
    "coordinator/coordinator.py": "from iceberg_hms.coordinator.scheduling import time_budget\n",
    "metastore/capabilities.py": "from iceberg_hms.metastore.locks import lease\n",
    "metastore/locks/lease.py": "from iceberg_hms.metastore.compare_and_swap import proofs\n",
    "metastore/tables/parameters.py": "from iceberg_hms.metastore.compare_and_swap import proofs\n",
    "metastore/compare_and_swap/proofs.py": "from iceberg_hms.metastore.connection import client\n",
    "metastore/connection/client.py": (
        "import hmsclient\nimport thrift.Thrift\nfrom iceberg_hms.coordinator import ports\n"
    ),
    "storage/files.py": "import pyarrow\nfrom iceberg_hms.coordinator import ports\n",
    "storage/retries.py": "import tenacity\n",
    "zookeeper/session.py": "import kazoo.client\nfrom iceberg_hms.coordinator import ports\n",
    "assembly.py": (
        "from iceberg_hms.metastore.connection import client\n"
        "from iceberg_hms.catalog import catalog\n"
        "from iceberg_hms import stores\n"
        "from iceberg_hms.storage import files\n"
        "from iceberg_hms.zookeeper import session\n"
    ),
    "stores.py": "from iceberg_hms.storage import files\n",
    "catalog/catalog.py": "from iceberg_hms.locking import lock_modes\n",
    "locking/lock_modes.py": "from iceberg_hms import identifiers\n",
    "datafiles/footers.py": "from iceberg_hms.format.avro import avro_file\n",
    "planning/planner.py": "from iceberg_hms.changes import change\n",
    "identifiers.py": "from iceberg_hms.coordinator import ports\n",
    "lock_record.py": "",
    "lock_waits.py": "from iceberg_hms import lock_record\n",
    "runtime.py": "from iceberg_hms.coordinator import ports\n",
    "rest/server.py": "import httptools\nimport starlette\nimport uvicorn\nfrom iceberg_hms import catalog\n",
    "rest/app.py": "",
    "rest/settings.py": "from iceberg_hms import config\n",
    "rest/commits.py": "",
    "rest/dispatch.py": "from iceberg_hms.rest.access import authorization\n",
    "rest/errors.py": "",
    "rest/access/authorization.py": "",
    "rest/access/oidc.py": "import jwt\nfrom iceberg_hms.rest.access import oidc_keys\n",
    "rest/access/oidc_keys.py": "import jwt\nimport cryptography.x509\nimport tenacity\n",
    "inspect/pointer.py": "from iceberg_hms import catalog\n",
    "migration/spark_executors.py": "import pyspark\nfrom iceberg_hms import spark\n",
    "migration/progress_bar.py": "import rich\n",
    "migration/describing.py": "from iceberg_hms.migration import listing\n",
    "migration/listing.py": "from iceberg_hms.migration import task\n",
    "migration/task.py": "from iceberg_hms import stores\n",
    "pyiceberg/catalog.py": "import pyiceberg.catalog\nfrom iceberg_hms import assembly\n",
    "local/gateway.py": "import py4j.java_gateway\nimport tenacity\n",
    "spark/session.py": "import pyspark\nfrom iceberg_hms.rest import server\nfrom iceberg_hms.local import gateway\n",
    "cli/main.py": "import rich\nimport typer\nfrom iceberg_hms import spark\n",
    "cli/demo/loading.py": "import pyspark\n",
    "testing/contracts/files.py": "from iceberg_hms.storage import files\n",
    "simulation/engine/scheduler.py": "",
    "simulation/world/storage.py": "from simulation.engine import scheduler\n",
    "simulation/checks/invariants.py": "from simulation.world import storage\n",
    "simulation/actors/writers.py": "from simulation.world import storage\n",
    "simulation/scenarios/scenario.py": "from simulation.actors import writers\n",
    "simulation/schedule.py": "from simulation.checks import invariants\n",
    "simulation/batches.py": "from simulation import schedule\n",
    "simulation/__main__.py": "from simulation import batches\n",
    "simulation/mutants/hunt.py": "from simulation.scenarios import scenario\n",
    "tests/fakes.py": "from simulation.actors import writers\n",
    "integration/interop.py": "from tests import fakes\n",
    "benchmarks/writers.py": "from integration import interop\nfrom tests import fakes\n",
    "labs/siege/attackers.py": "from benchmarks import writers\nfrom integration import interop\n",
}

#: Contract -> module -> the import that it must refuse.
BAD: dict[str, dict[str, str]] = {
    "layers": {
        "clock.py": "from iceberg_hms.format import types",
        "setting.py": "from iceberg_hms import config",
        "config.py": "from iceberg_hms.rest import settings",
        "expressions/binding.py": "from iceberg_hms.changes import change",
        "format/schema/types.py": "from iceberg_hms.changes.operations import append",
        "changes/operations/files/overwrite.py": "from iceberg_hms.coordinator import ports",
        "coordinator/group/commit_group.py": "from iceberg_hms.storage import manifests",
        "storage/manifests.py": "from iceberg_hms.metastore.connection import client",
        "metastore/locks/table_lock.py": "from iceberg_hms.catalog import tables",
        "locking/lock_admin.py": "from iceberg_hms.catalog import tables",
        "datafiles/footers.py": "from iceberg_hms.locking import lock_modes",
        "catalog/tables.py": "from iceberg_hms.rest import app",
        "rest/app.py": "from iceberg_hms.local import zookeeper",
        "local/zookeeper.py": "from iceberg_hms.spark import configuration",
        "spark/configuration.py": "from iceberg_hms.cli import serve",
        "cli/serve.py": "from iceberg_hms.testing import memory",
        "testing/memory.py": "",
    },
    "format-rooms": {
        "format/metadata/create.py": "from iceberg_hms.format.updates import apply",
        "format/views/view_file.py": "from iceberg_hms.format.updates import apply",
        "format/manifests/manifest_list.py": "from iceberg_hms.format.updates import apply",
        "format/avro/manifest_schemas.py": "from iceberg_hms.format.metadata import table_metadata",
        "format/schema/name_mapping.py": "from iceberg_hms.format.avro import avro_file",
        "format/locations.py": "from iceberg_hms.format import json_fields",
    },
    "change-rooms": {
        "changes/clients/rebase.py": "from iceberg_hms.changes.operations import snapshot_operation",
        "changes/operations/files/delete.py": "from iceberg_hms.changes.clients import rebase",
        "changes/sequence_numbers.py": "from iceberg_hms.changes.clients import rebase",
        "changes/change.py": "from iceberg_hms.changes import updates",
    },
    "operation-rooms": {
        "changes/operations/files/append.py": "from iceberg_hms.changes.operations.snapshots import refs",
        "changes/operations/manifests/conflicts.py": "from iceberg_hms.changes.operations.files import append",
        "changes/operations/schema/update_spec.py": "from iceberg_hms.changes.operations.manifests import conflicts",
        "changes/operations/properties.py": "from iceberg_hms.changes.operations import statistics",
    },
    "metastore-rooms": {
        "metastore/connection/pool.py": "from iceberg_hms.metastore.compare_and_swap import proofs",
        "metastore/compare_and_swap/row_write.py": "from iceberg_hms.metastore.tables import parameters",
        "metastore/tables/table_names.py": "from iceberg_hms.metastore.locks import lease",
        "metastore/locks/lock_table.py": "from iceberg_hms.metastore import capabilities",
    },
    "rest-access": {
        "rest/access/audit.py": "from iceberg_hms.rest import dispatch",
        "rest/access/scopes.py": "import starlette",
    },
    "tokens": {"rest/access/tokens.py": "import jwt", "cli/token.py": "import cryptography.x509"},
    "spark-uses": {"spark/show.py": "from iceberg_hms.inspect import pointer"},
    "drivers": {
        "catalog/create.py": "from iceberg_hms.storage import files",
        "locking/chosen_lock.py": "from iceberg_hms.zookeeper import session",
        "cli/doctor.py": "from iceberg_hms.metastore import client",
    },
    "executors": {"migration/task.py": "from iceberg_hms.metastore import client"},
    "coordinator-has-no-runtime": {
        "coordinator/staging/a.py": "import threading",
        "coordinator/staging/b.py": "from queue import Queue",
        "coordinator/staging/c.py": "import time",
        "coordinator/staging/d.py": "from concurrent.futures import ThreadPoolExecutor",
    },
    "coordinator-rooms": {
        "coordinator/staging/staging.py": "from iceberg_hms.coordinator.scheduling import time_budget",
        "coordinator/files/cleanup.py": "from iceberg_hms.coordinator.sending import status_check",
        "coordinator/outcome/commit_status.py": "from iceberg_hms.coordinator.staging import invariants",
    },
    "pure": {
        "format/schema/a.py": "import os",
        "changes/a.py": "from pathlib import Path",
        "coordinator/staging/e.py": "import pyarrow.fs",
    },
    "thrift": {"catalog/a.py": "from thrift.Thrift import TException", "cli/a.py": "import hmsclient.genthrift"},
    "kazoo": {"metastore/connection/a.py": "from kazoo.client import KazooClient"},
    "tenacity": {"zookeeper/a.py": "import tenacity", "coordinator/f.py": "from tenacity import retry"},
    "java": {"catalog/b.py": "import pyspark.sql", "rest/a.py": "from py4j.java_gateway import JavaGateway"},
    "http": {"catalog/c.py": "import starlette.requests", "cli/b.py": "import uvicorn"},
    "avro": {"storage/a.py": "import fastavro", "format/manifests/b.py": "from fastavro import reader"},
    "folders": {
        "testing/worlds.py": "import simulation",
        "simulation/world/clients.py": "from tests import fakes",
        "tests/test_interop.py": "from integration import interop",
        "integration/test_writers.py": "from benchmarks import writers",
        "benchmarks/attacked.py": "from labs.siege import attackers",
    },
    "simulation-layers": {
        "simulation/engine/scheduler.py": "from simulation.world import storage",
        "simulation/world/storage.py": "from simulation.checks import invariants",
        "simulation/checks/invariants.py": "from simulation.actors import writers",
        "simulation/actors/writers.py": "from simulation.scenarios import scenario",
        "simulation/scenarios/scenario.py": "from simulation import schedule",
        "simulation/schedule.py": "from simulation import batches",
        "simulation/batches.py": "from simulation import __main__",
        "simulation/__main__.py": "from simulation.mutants import hunt",
        "simulation/mutants/hunt.py": "",
    },
    "pyiceberg": {"catalog/d.py": "from pyiceberg.schema import Schema", "rest/b.py": "import pydantic"},
    "console": {"inspect/a.py": "from rich.table import Table", "spark/a.py": "import typer"},
}


def contracts() -> dict[str, str]:
    """Id -> name, of every contract."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / CONTRACTS)
    prefix = "importlinter:contract:"
    return {section.removeprefix(prefix): parser[section]["name"] for section in parser if section.startswith(prefix)}


def path_of(module: str) -> str:
    return module if module.partition("/")[0] in FOLDERS else f"iceberg_hms/{module}"


def lint(folder: Path, modules: dict[str, str]) -> str:
    """Write the modules as packages in `folder` and return what import-linter says of them."""
    for name, text in modules.items():
        path = folder / path_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    for package in [path for path in folder.rglob("*") if path.is_dir()]:
        (package / "__init__.py").touch()
    shutil.copy(ROOT / CONTRACTS, folder)
    command = [
        sys.executable,
        "-c",
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import *; lint_imports_command()",
    ]
    result = subprocess.run(
        [*command, "--no-cache", "--no-logo"], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What import-linter says when every bad import is there at once."""
    bad = {module: text for modules in BAD.values() for module, text in modules.items()}
    return lint(tmp_path_factory.mktemp("bad"), GOOD | bad)


def test_the_allowed_imports_break_nothing(tmp_path: Path) -> None:
    verdict = lint(tmp_path, GOOD)
    assert f"Contracts: {len(contracts())} kept, 0 broken." in verdict, verdict


def test_every_contract_has_its_bad_example() -> None:
    assert set(BAD) == set(contracts())


@pytest.mark.parametrize(
    ("contract", "module"),
    [(contract, module) for contract, modules in BAD.items() for module, text in modules.items() if text],
)
def test_a_bad_import_breaks_its_contract(verdicts: str, contract: str, module: str) -> None:
    name = contracts()[contract]
    assert f"{name} BROKEN" in verdicts, verdicts
    # Each broken contract has a section of its own, headed by its name and a line of dashes.
    section = verdicts.partition(f"{name}\n---")[2].partition("\n---")[0]
    importer = path_of(module).removesuffix(".py").replace("/", ".")
    assert f"{importer} -> " in section, verdicts


def test_a_room_that_no_layer_names_is_found(tmp_path: Path) -> None:
    verdict = lint(tmp_path, GOOD | {"attic/old.py": ""})
    assert "attic" in verdict
    assert "broken" in verdict or "BROKEN" in verdict
