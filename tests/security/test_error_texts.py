"""What clients see of errors names no path of the server, and repeats nothing of a file."""

from __future__ import annotations

import inspect
import logging
from dataclasses import replace
from typing import Any

import orjson
import pytest

from iceberg_hms import errors
from iceberg_hms.errors import proved
from iceberg_hms.rest.app import create_app
from iceberg_hms.rest.errors import error_response
from tests.rest.fakes import SCHEMA, ScriptedCatalog, Web, error_of

ORDERS = "/v1/namespaces/default/tables/orders"
SECRET = "file:/srv/private/keys.json: the password is hunter2, at metastore-7.internal:9083"


@pytest.fixture
def catalog() -> ScriptedCatalog:
    found = ScriptedCatalog()
    found.create_table(("default", "orders"), SCHEMA)
    return found


@pytest.fixture
def web(catalog: ScriptedCatalog) -> Web:
    return Web(create_app(catalog, settings=catalog.rest_settings))


def tells(response: Any) -> bool:
    text = response.text
    return any(word in text for word in ("hunter2", "/srv", "metastore-7"))


FOREIGN: list[Exception] = [
    errors.StorageError(SECRET),
    errors.StorageError("disk full", next_step=SECRET),
    errors.CorruptFile("file:/srv/private/keys.json", SECRET),
    errors.MetastoreUnavailable(SECRET),
    errors.MetastoreRefused(SECRET),
    errors.AccessDenied(SECRET),
    errors.LockUnavailable(SECRET, next_step=SECRET),
    errors.LockLost(SECRET),
    errors.EngineError(SECRET),
    errors.ConfigError(SECRET),
    errors.CommitStateUnknown(f"its metadata cannot be read: {SECRET}"),
    errors.proved(errors.StorageError(SECRET)),
    errors.proved(errors.MetastoreRefused(SECRET)),
    OSError(13, SECRET),
    MemoryError(SECRET),
]


@pytest.mark.parametrize("error", FOREIGN, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("method", "body", "call"), [("GET", None, "load"), ("POST", {"updates": []}, "submit")])
def test_texts_of_files_and_of_the_metastore_stay_in_the_log(
    catalog: ScriptedCatalog,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    method: str,
    body: Any,
    call: str,
) -> None:
    catalog.errors[call] = error
    settings = catalog.rest_settings
    if call == "load":
        # Nobody waits for a metastore that is away.
        settings = replace(settings, rest_commit_wait_ms=10)
    web = Web(create_app(catalog, settings=settings))
    with caplog.at_level(logging.WARNING):
        response = web(method, ORDERS, body)
    assert not tells(response)
    request_id = response.headers["x-request-id"]
    assert request_id in error_of(response)[2]
    found = [record for record in caplog.records if request_id in record.getMessage()]
    assert len(found) == 1
    shown = caplog.text
    assert "/srv/private" in shown or "hunter2" in shown


def test_a_new_kind_of_error_shows_nothing_until_somebody_decides() -> None:
    class NewKind(errors.IcebergHmsError): ...

    assert b"hunter2" not in bytes(error_response(NewKind(SECRET), "the-id").body)


@pytest.mark.parametrize("kind", [errors.CommitConflict, errors.LockNotAcquired])
def test_a_conflict_shows_neither_the_holder_of_a_lock_nor_the_metastore_s_words(
    kind: type[errors.CommitFailed],
) -> None:
    body = bytes(error_response(proved(kind(SECRET)), "the-id", commit=True).body)
    assert b"hunter2" not in body
    assert b"the-id" in body


def test_every_kind_of_error_has_a_text() -> None:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.IcebergHmsError):
            error = kind.__new__(kind)
            errors.IcebergHmsError.__init__(error, "what happened")
            message = orjson.loads(error_response(error, "the-id").body)["error"]["message"]
            assert message.startswith("what happened") or "the-id" in message, kind


@pytest.mark.parametrize(
    "content",
    [
        b'{"format-version": "hunter2"}',
        b'{"format-version": 31337, "table-uuid": "hunter2"}',
        b'{"format-version": 2, "table-uuid": "hunter2", "location": "/srv", "last-updated-ms": "hunter2"}',
        b'{"hunter2": "hunter2"}',
        b'["hunter2"]',
        b"hunter2",
        b"\x1f\x8bhunter2",
        b"",
    ],
)
def test_a_registration_repeats_nothing_of_the_file(catalog: ScriptedCatalog, web: Web, content: bytes) -> None:
    catalog.files.write("file:/warehouse/secret.json", content)
    body = {"name": "t", "metadata-location": "file:/warehouse/secret.json"}
    response = web("POST", "/v1/namespaces/default/register", body)
    status, kind, message = error_of(response)
    assert (status, kind) == (400, "BadRequestException")
    assert not tells(response)
    assert "31337" not in message


def test_a_missing_file_is_named_to_the_client_that_named_it(web: Web) -> None:
    body = {"name": "t", "metadata-location": "file:/warehouse/none.metadata.json"}
    expected = (404, "NotFoundException", "Failed to open input stream for file: file:/warehouse/none.metadata.json")
    assert error_of(web("POST", "/v1/namespaces/default/register", body)) == expected


def test_a_table_whose_metadata_is_gone_is_said_so_with_its_own_file(catalog: ScriptedCatalog, web: Web) -> None:
    location = ScriptedCatalog().create_table(("default", "orders"), SCHEMA).metadata_location
    catalog.errors["load"] = errors.MissingFile(location)
    # Java's own text: every load of the table names this file to its clients.
    expected = (404, "NotFoundException", f"Failed to open input stream for file: {location}")
    assert error_of(web("GET", ORDERS)) == expected


def test_a_commit_to_a_table_whose_metadata_is_gone_names_no_file(catalog: ScriptedCatalog, web: Web) -> None:
    catalog.errors["submit"] = errors.MissingFile("file:/srv/private/keys.json")
    assert not tells(web("POST", ORDERS, {"updates": []}))


def test_what_a_client_did_wrong_is_still_told(web: Web) -> None:
    wrong = {"requirements": [{"type": "assert-table-uuid", "uuid": "other"}], "updates": []}
    assert "UUID does not match" in error_of(web("POST", ORDERS, wrong))[2]
    assert error_of(web("GET", "/v1/namespaces/default/tables/none"))[2] == "Table does not exist: default.none"
    assert "requirements" in error_of(web("POST", ORDERS, {"requirements": 7}))[2]
