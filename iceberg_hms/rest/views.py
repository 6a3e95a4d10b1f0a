"""Views: list, create, load, exists, replace, drop, rename, register (REST spec: the paths under `views`).

Only Iceberg views exist here: GET, HEAD and DELETE of a missing view, of a table, of a Hive view, and of anything in a
missing namespace are 404 NoSuchViewException, after which Spark's session catalog asks for a table, and Hive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from iceberg_hms.errors import MissingFile, NoSuchView, NotFound, ResourceExhausted, proved
from iceberg_hms.rest import payloads, responses
from iceberg_hms.rest.access import protected
from iceberg_hms.rest.access.authorization import EVERYWHERE, Action
from iceberg_hms.rest.dispatch import RestRequest

if TYPE_CHECKING:
    from iceberg_hms.catalog.views import LoadedView
    from iceberg_hms.format.views.view_metadata import ViewMetadata


def list_views(request: RestRequest) -> Response:
    """GET views: the Iceberg views of a namespace, in order of their names."""
    namespace = payloads.single_namespace(request.parameters["namespace"])
    page = request.page("views", namespace)
    # The catalog may return the namespace in another case than the client's; names are unique either way.
    found = {view.name: view for view in request.catalog.views.list(namespace)}
    names, token = page.cut(list(found))
    identifiers = [{"namespace": [found[name].namespace], "name": name} for name in names]
    return responses.counted_response({"identifiers": identifiers, "next-page-token": token}, request.context.memory)


def create_view(request: RestRequest) -> Response:
    """POST views: create a view."""
    namespace = payloads.single_namespace(request.parameters["namespace"])
    fields = payloads.Fields.parse(request.body)
    identifier = (namespace, fields.text("name"))
    schema, version = fields.object("schema"), fields.object("view-version")
    location, properties = fields.optional_text("location"), fields.string_map("properties")
    request.require(Action.CREATE_VIEW, *identifier)
    request.require_protected(protected.changed(properties, {}), *identifier)
    views, client = request.catalog.views, request.client
    return _served(request, views.create(identifier, schema, version, location, properties, client=client))


def load_view(request: RestRequest) -> Response:
    """GET a view: its metadata."""
    with payloads.missing_namespace_is(NoSuchView, view := named_view(request)):
        try:
            return _served(request, request.catalog.views.load(view))
        except MissingFile as error:
            # As for a table. Not NoSuchView, after which Spark would look for another table or view of this name.
            raise NotFound(error.message) from error


def view_exists(request: RestRequest) -> Response:
    """HEAD a view: 204 or 404."""
    with payloads.missing_namespace_is(NoSuchView, view := named_view(request)):
        if not request.catalog.views.exists(view):
            raise NoSuchView(".".join(view))
    return responses.no_content()


def commit_view(request: RestRequest) -> Response:
    """POST a view: commit updates under requirements, such as a new version that replaces the current one."""
    view = named_view(request)
    body = payloads.CommitTable.parse(request.body)
    payloads.check_identifier(body.identifier, view, "view")
    if protected.touches(body.updates):
        try:
            current = request.catalog.views.load(view).metadata.properties
        except ResourceExhausted as error:
            # Nothing was sent.
            raise proved(error) from error
        request.require_protected(protected.changed_by(body.updates, current), *view)
    committed = request.catalog.views.commit(
        view, body.requirements, body.updates, client=request.client, wait_seconds=request.seconds_left
    )
    return _served(request, committed)


def drop_view(request: RestRequest) -> Response:
    """DELETE a view; its files stay."""
    with payloads.missing_namespace_is(NoSuchView, view := named_view(request)):
        request.catalog.views.drop(view, wait_seconds=request.seconds_left)
    return responses.no_content()


def rename_view(request: RestRequest) -> Response:
    """POST rename: rename a view, also into another namespace."""
    source, destination = payloads.renamed(request.body, NoSuchView)
    request.entry.details["to"] = list(destination)
    for name in (destination, source):
        request.require(Action.RENAME_VIEW, *name)
    request.catalog.views.rename(source, destination, wait_seconds=request.seconds_left)
    return responses.no_content()


def register_view(request: RestRequest) -> Response:
    """POST register-view: make a view of an existing metadata file. It may be a file of any view, so its caller must be
    allowed to read all views."""
    namespace = payloads.single_namespace(request.parameters["namespace"])
    fields = payloads.Fields.parse(request.body)
    identifier, file = (namespace, fields.text("name")), fields.text("metadata-location")
    request.entry.details["file"] = file
    request.require(Action.READ_ANY_FILE, EVERYWHERE)
    request.require(Action.REGISTER_VIEW, *identifier)

    def check(metadata: ViewMetadata) -> None:
        request.require_protected(protected.changed(metadata.properties, {}), *identifier)

    try:
        registered = request.catalog.views.register(
            identifier,
            file,
            owner=request.caller.name,
            client=request.client,
            wait_seconds=request.seconds_left,
            check=check,
        )
    except MissingFile as error:
        # With the location, which the client itself named.
        raise NotFound(error.message) from error
    return _served(request, registered)


def named_view(request: RestRequest) -> tuple[str, str]:
    """The view that the path names."""
    return payloads.single_level(request.parameters["namespace"], request.parameters["view"], NoSuchView)


def _served(request: RestRequest, view: LoadedView) -> Response:
    return responses.table_response(view.metadata.to_bytes(), view.metadata_location, request.context.memory)
