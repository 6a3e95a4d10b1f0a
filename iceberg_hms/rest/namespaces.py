"""Namespaces: list, create, load, exists, drop, properties (REST spec: /v1/{prefix}/namespaces).

A namespace is a database of the metastore, so there is one level: a name with several parts does not exist.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from starlette.exceptions import HTTPException
from starlette.responses import Response

from iceberg_hms.errors import NoSuchNamespace
from iceberg_hms.rest.access import protected
from iceberg_hms.rest.access.authorization import Action
from iceberg_hms.rest.dispatch import RestRequest
from iceberg_hms.rest.payloads import Fields, joined_parts, new_namespace, single_namespace
from iceberg_hms.rest.responses import counted_response, no_content


def list_namespaces(request: RestRequest) -> Response:
    """GET namespaces: the databases that the caller may read. With `parent`: none, since databases do not nest."""
    separator = unquote(request.context.settings.rest_namespace_separator)
    parent = joined_parts(request.query.get("parent") or "", separator)
    page = request.page("namespaces", parent)
    names: list[str] = []
    if not parent:
        names = [name for name in request.catalog.list_namespaces() if request.may(Action.LOAD_NAMESPACE, name)]
    else:
        request.require(Action.LOAD_NAMESPACE, parent)
        if not request.catalog.namespace_exists(single_namespace(parent)):
            raise NoSuchNamespace(parent)
    shown, token = page.cut(names)
    body = {"namespaces": [[name] for name in shown], "next-page-token": token}
    return counted_response(body, request.context.memory)


def create_namespace(request: RestRequest) -> Response:
    """POST namespaces: create one; responds with its properties, including those that the metastore added."""
    fields = Fields.parse(request.body)
    namespace, properties = new_namespace(fields.strings("namespace")), fields.string_map("properties")
    request.require(Action.CREATE_NAMESPACE, namespace)
    protected.checked_namespace(properties)
    request.catalog.create_namespace(namespace, properties)
    return _described(namespace, request, must=True)


def load_namespace(request: RestRequest) -> Response:
    """GET a namespace: its properties."""
    return _described(_namespace(request), request)


def namespace_exists(request: RestRequest) -> Response:
    """HEAD a namespace: 204 or 404."""
    namespace = _namespace(request)
    if not request.catalog.namespace_exists(namespace):
        raise NoSuchNamespace(namespace)
    return no_content()


def drop_namespace(request: RestRequest) -> Response:
    """DELETE a namespace that is empty."""
    request.catalog.drop_namespace(_namespace(request))
    return no_content()


def update_namespace(request: RestRequest) -> Response:
    """POST properties: set some, remove others; 422 for a key in both lists."""
    namespace = _namespace(request)
    fields = Fields.parse(request.body)
    updates, removals = fields.string_map("updates"), list(dict.fromkeys(fields.strings("removals")))
    both = sorted(updates.keys() & set(removals))
    if both:
        raise HTTPException(422, f"Keys to set and to remove at once: {', '.join(both)}")
    request.require_protected(protected.checked_namespace(updates, removals), namespace)
    result = request.catalog.update_namespace_properties(namespace, updates=updates, removals=removals)
    changed = {"updated": result.updated, "removed": result.removed, "missing": result.missing}
    answer = {name: sorted(keys) for name, keys in changed.items()}
    return counted_response(answer, request.context.memory, must=True)


def _namespace(request: RestRequest) -> str:
    return single_namespace(request.parameters["namespace"])


def _described(namespace: str, request: RestRequest, *, must: bool = False) -> Response:
    body: dict[str, Any] = {
        "namespace": [namespace],
        "properties": dict(request.catalog.load_namespace_properties(namespace)),
    }
    return counted_response(body, request.context.memory, must=must)
