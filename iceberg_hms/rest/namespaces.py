"""Namespaces: list, create, load, exists, drop, properties (REST spec: /v1/{prefix}/namespaces).

A namespace is a database of the metastore, so there is one level. A name with several parts is not there.
"""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from iceberg_hms.errors import NoSuchNamespace
from iceberg_hms.rest.answers import json_response, no_content
from iceberg_hms.rest.dispatch import Call
from iceberg_hms.rest.payloads import CreateNamespace, Page, UpdateProperties, single_namespace


def list_namespaces(call: Call) -> Response:
    """GET namespaces: the databases; below any of them (`parent`) there are none."""
    page = Page.parse(call.query)
    parent = call.query.get("parent")
    names: list[str] = []
    if not parent:
        names = list(call.catalog.list_namespaces())
    elif not call.catalog.namespace_exists(single_namespace(parent)):
        raise NoSuchNamespace(parent)
    shown, token = page.cut(names)
    return json_response({"namespaces": [[name] for name in shown], "next-page-token": token})


def create_namespace(call: Call) -> Response:
    """POST namespaces: answers with the properties that the metastore has now, its own among them."""
    request = CreateNamespace.parse(call.body)
    call.catalog.create_namespace(request.namespace, request.properties)
    return _described(request.namespace, call)


def load_namespace(call: Call) -> Response:
    """GET a namespace: its properties."""
    return _described(_namespace(call), call)


def namespace_exists(call: Call) -> Response:
    """HEAD a namespace: 204 or 404."""
    namespace = _namespace(call)
    if not call.catalog.namespace_exists(namespace):
        raise NoSuchNamespace(namespace)
    return no_content()


def drop_namespace(call: Call) -> Response:
    """DELETE a namespace: only an empty one."""
    call.catalog.drop_namespace(_namespace(call))
    return no_content()


def update_namespace(call: Call) -> Response:
    """POST properties: set some and remove others; a key in both lists is 422."""
    namespace = _namespace(call)
    request = UpdateProperties.parse(call.body)
    both = sorted(request.updates.keys() & set(request.removals))
    if both:
        raise HTTPException(422, f"Keys to set and to remove at once: {', '.join(both)}")
    result = call.catalog.update_namespace(namespace, request.updates, request.removals)
    body = {"updated": result.updated, "removed": result.removed, "missing": result.missing}
    return json_response({name: sorted(keys) for name, keys in body.items()})


def _namespace(call: Call) -> str:
    return single_namespace(call.parameters["namespace"])


def _described(namespace: str, call: Call) -> Response:
    body: dict[str, Any] = {"namespace": [namespace], "properties": dict(call.catalog.load_namespace(namespace))}
    return json_response(body)
