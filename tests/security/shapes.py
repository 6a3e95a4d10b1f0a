"""Hypothesis strategies over the protocol: requests of every kind that are right, and what an attacker makes of them.

A body names what only the world of a run knows by a word such as `@uuid`, which `fuzz.World` replaces; so an example is
the same in each run, and hypothesis can shrink it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from hypothesis import strategies as st

from iceberg_hms.rest.configuration import CONFIG, ENDPOINTS
from iceberg_hms.testing.memory_pointer import ScriptedAnswer
from tests.rest.fakes import SCHEMA

#: The tables of `fuzz.World` by their names, all in the namespace `logging`; `hive` is none of Iceberg's. `view` is an
#: Iceberg view there.
TABLES = ("events", "old", "new", "hive")
NAMES = (*TABLES, "view", "fresh", "missing")
NAMESPACES = ("logging", "empty", "missing")

ODD_TEXTS = (
    *(
        "",
        " ",
        ".",
        "..",
        "/",
        "\x00",
        "t\x00",
        "events ",
        "\n",
        "EVENTS",
        "*",
        "%",
        "'",
        '"',
        "\\",
        "\x1f",
        "é",
        "\u017f",
    ),
    *("\ud800", "\udfff", "\U0001f9ca", "\u202e", "n" * 128, "n" * 129, "n" * 300, "v" * 40_000, "null", "main"),
    *(
        "../../../etc/passwd",
        "file:/etc/passwd",
        "file:/warehouse/canary.json",
        "file:/warehouse/canary-fields.json",
        "file:/warehouse/canary.txt",
    ),
    *("file:///dev/zero", "file:", "x:", "s3://bucket/key", "hdfs://nn:8020?user=hdfs", "http://[::1", "file:/w\x00"),
    *("decimal(38,", "decimal(99999999999999999999,1)", "list<" * 400, "struct<" + "a:int," * 400, "fixed[-1]"),
    *("bucket[0]", "bucket[99999999999999]", "truncate[-5]", "unknown", "variant", "geometry(", "timestamp_ns"),
    *("2", "true", "-1", "1e999", "9" * 400, "@uuid", "@location", "@metadata", "@snapshot-id", "@digits", "@deep"),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 4, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1),
    *(1.5, -0.0, 1e308, float("nan"), float("inf"), [], {}, [[]], [None], [{}], {"": ""}, {"a": {"a": 1}}),
    *([0] * 2_000, {str(number): "" for number in range(500)}, ["a", "a"], [1, 1], {"type": "struct", "fields": []}),
)
SEGMENTS = (
    *NAMES,
    *NAMESPACES,
    *("LOGGING", "Events", "events%00", "events%20", "%20events", "events%0a", "events+", "+", "%", "%zz", "%ff"),
    *("%C3%A9", "%ED%A0%80", "logging%1Fevents", "%1F", "..", "%2e%2e", "%2F", "a%2Fb", "", ".", "*", "%25", "%2A"),
    *("n" * 300, "n" * 5_000, "events;v=1", "events?", "tables", "v1", "\xe9", "t\x01", "%00", "_", "%", "'"),
)
METHODS = ("GET", "POST", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "get", "X" * 300)
HEADERS = (
    *((b"idempotency-key", value) for value in (b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f", b"junk", b"", b"\xff" * 50)),
    *((b"if-none-match", value) for value in (b"*", b'"x"', b'W/"', b",,,,", b'"' * 999)),
    *((b"accept-encoding", value) for value in (b"gzip", b"zstd", b"br;q=x", b"*;q=0", b"gzip;q=")),
    *((b"content-type", value) for value in (b"text/plain", b"application/json; charset=utf-16", b"", b"\x80")),
    *((b"x-request-id", value) for value in (b"abc", b'"}\n{', b"i" * 5_000, b"\xff\xfe")),
    *((b"authorization", value) for value in (b"Bearer", b"Bearer \xff", b"Basic YTpi", b"Bearer a b c")),
    *((b"user-agent", value) for value in (b"", b"PyIceberg/0.12", b"Apache-HttpClient/5", b"u" * 5_000)),
    *((b"host", b"elsewhere"), (b"origin", b"null"), (b"x-forwarded-for", b"1.2.3.4"), (b"x-client-version", b"\xe9")),
)
QUERIES = (
    *("purgeRequested=true", "purgeRequested=false", "purgeRequested=1", "snapshots=refs", "snapshots=x", "pageSize=1"),
    *(
        "pageToken=&pageSize=1",
        "pageToken=%ff",
        "pageToken=ZXZlbnRz&pageSize=0",
        "pageSize=99999999999",
        "parent=empty",
    ),
    *("parent=%1F", "parent=logging%1Fa", "warehouse=x", "=", "&&&", "a=1&a=2", "%00=%00", "%", "x=" + "y" * 3_000),
)


@dataclass(frozen=True)
class Mutation:
    """What happens to one value of a body. place: which one, counted through the tree and around again."""

    place: int
    kind: str
    value: Any = None


@dataclass(frozen=True)
class Attack:
    """One request. body: JSON with the world's words; None for none. cut: how many thousandths of the body are sent.
    garbage: bytes instead of the body. fault: how the metastore answers the request's first change."""

    method: str
    path: str
    query: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: Any = None
    mutations: tuple[Mutation, ...] = ()
    cut: int = 1_000
    garbage: bytes | None = None
    fault: ScriptedAnswer | None = None

    def __repr__(self) -> str:
        given = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self)[2:])
        usual = {f"{each.name}={each.default!r}" for each in fields(self)[2:]}
        return (
            f"Attack({', '.join([repr(self.method), repr(self.path), *(each for each in given if each not in usual)])})"
        )


def _update(action: str, **values: Any) -> dict[str, Any]:
    return {"action": action, **{name.replace("_", "-"): value for name, value in values.items()}}


def snapshot(snapshot_id: Any, **others: Any) -> dict[str, Any]:
    snapshot = {
        "snapshot-id": snapshot_id,
        "sequence-number": "@next-sequence-number",
        "timestamp-ms": "@now",
        "manifest-list": "@list",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    return {**snapshot, **{name.replace("_", "-"): value for name, value in others.items()}}


FIELD = {"id": 3, "name": "at", "required": False, "type": "timestamptz"}
SPEC = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "level", "transform": "identity"}]}
ORDER = {
    "order-id": 1,
    "fields": [{"source-id": 1, "transform": "bucket[16]", "direction": "asc", "null-order": "nulls-first"}],
}
STATISTICS = {
    "snapshot-id": "@snapshot-id",
    "statistics-path": "@location/metadata/a.stats",
    "file-size-in-bytes": 10,
    "file-footer-size-in-bytes": 5,
    "blob-metadata": [],
}
PARTITION_STATISTICS = {
    "snapshot-id": "@snapshot-id",
    "statistics-path": "@location/p.parquet",
    "file-size-in-bytes": 9,
}
#: Not those after which the metastore may still make the change: the server keeps the table's lock so long.
FAULTS = (
    ScriptedAnswer.REFUSED,
    ScriptedAnswer.REFUSED_AFTER_APPLY,
    ScriptedAnswer.REPLY_LOST,
    ScriptedAnswer.REQUEST_LOST,
)
REQUIREMENTS: tuple[dict[str, Any], ...] = (
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": "@uuid"},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": "@snapshot-id"},
    {"type": "assert-ref-snapshot-id", "ref": "other", "snapshot-id": None},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
    {"type": "assert-view-uuid", "uuid": "@uuid"},
)
UPDATES: tuple[dict[str, Any], ...] = (
    _update("assign-uuid", uuid="@uuid"),
    *(_update("upgrade-format-version", format_version=version) for version in (1, 2, 3, 4)),
    _update("add-schema", schema={**SCHEMA, "fields": [*SCHEMA["fields"], FIELD]}, last_column_id=3),
    *(_update("set-current-schema", schema_id=each) for each in (-1, 0, 1)),
    *(_update("remove-schemas", schema_ids=each) for each in ([0], [1], [5])),
    _update("add-spec", spec=SPEC),
    *(_update("set-default-spec", spec_id=each) for each in (-1, 0, 1)),
    *(_update("remove-partition-specs", spec_ids=each) for each in ([0], [1])),
    _update("add-sort-order", sort_order=ORDER),
    *(_update("set-default-sort-order", sort_order_id=each) for each in (-1, 0, 1)),
    *(_update("add-snapshot", snapshot=snapshot(each)) for each in (7, 8, "@snapshot-id")),
    _update("add-snapshot", snapshot=snapshot(7, parent_snapshot_id="@snapshot-id")),
    _update("add-snapshot", snapshot=snapshot(9, first_row_id=0, added_rows=1)),
    *(
        _update("add-snapshot", snapshot=snapshot(10 + number, manifest_list=each))
        for number, each in enumerate(
            ("file:/warehouse/canary.txt", "@location/none.avro", "@metadata", "@garbage-list")
        )
    ),
    *(_update("set-snapshot-ref", ref_name="main", type="branch", snapshot_id=each) for each in (7, 8, "@snapshot-id")),
    _update("set-snapshot-ref", ref_name="tag", type="tag", snapshot_id="@snapshot-id", max_ref_age_ms=1),
    *(_update("remove-snapshot-ref", ref_name=each) for each in ("main", "tag")),
    *(_update("remove-snapshots", snapshot_ids=each) for each in (["@snapshot-id"], [7], [1, 2])),
    _update("set-location", location="@location"),
    _update("set-location", location="file:/warehouse/elsewhere"),
    *(
        _update("set-properties", updates=each)
        for each in (
            {"a": "b"},
            {"iceberg-hms.lock": "junk"},
            {"iceberg-hms.exclusive": "true"},
            {"iceberg-hms.rebase-appends": "always"},
            {"engine.hive.lock-enabled": "junk"},
            {"write.metadata.path": "file:/warehouse/elsewhere"},
            {"write.metadata.compression-codec": "gzip"},
            {"write.metadata.compression-codec": "junk"},
            {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"},
            {"write.metadata.previous-versions-max": "junk"},
            {"commit.retry.num-retries": "junk", "commit.manifest.target-size-bytes": "-1"},
            {"encryption.key-id": "k"},
            {"metadata_location": "file:/x", "table_type": "HIVE", "EXTERNAL": "FALSE", "uuid": "x"},
        )
    ),
    _update("remove-properties", removals=["a", "iceberg-hms.lock"]),
    _update("set-statistics", snapshot_id="@snapshot-id", statistics=STATISTICS),
    _update("remove-statistics", snapshot_id="@snapshot-id"),
    _update("set-partition-statistics", partition_statistics=PARTITION_STATISTICS),
    _update("remove-partition-statistics", snapshot_id="@snapshot-id"),
    _update("add-encryption-key", encryption_key={"key-id": "k"}),
    _update("remove-encryption-key", key_id="k"),
    _update("add-view-version"),
)


def view_version(id_: int = 2, **others: Any) -> dict[str, Any]:
    """A version of a view."""
    version = {
        "version-id": id_,
        "timestamp-ms": "@now",
        "schema-id": 0,
        "summary": {"engine-name": "fuzz"},
        "default-namespace": ["logging"],
        "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
    }
    return {**version, **{name.replace("_", "-"): value for name, value in others.items()}}


_TWO_TEXTS = [{"type": "sql", "sql": text, "dialect": "spark"} for text in ("select 1", "select 2")]
VIEW_REQUIREMENTS: tuple[dict[str, Any], ...] = (
    *({"type": "assert-view-uuid", "uuid": each} for each in ("@uuid", "@uuid", "@uuid", "junk")),
    {"type": "assert-table-uuid", "uuid": "@uuid"},
    {"type": "assert-create"},
)
VIEW_UPDATES: tuple[dict[str, Any], ...] = (
    *(_update("assign-uuid", uuid=each) for each in ("@uuid", "junk")),
    *(_update("upgrade-format-version", format_version=version) for version in (1, 2)),
    _update("add-schema", schema={**SCHEMA, "fields": [*SCHEMA["fields"], FIELD]}),
    *(_update("add-view-version", view_version=view_version(each)) for each in (1, 2, 3)),
    _update("add-view-version", view_version=view_version(2, schema_id=-1)),
    _update("add-view-version", view_version=view_version(2, schema_id=99)),
    _update("add-view-version", view_version=view_version(2, representations=[])),
    _update("add-view-version", view_version=view_version(2, representations=_TWO_TEXTS)),
    _update("add-view-version", view_version=view_version(2, representations=[{"type": "file:/warehouse/canary.txt"}])),
    *(_update("set-current-view-version", view_version_id=each) for each in (-1, -1, 1, 2, 99)),
    *(_update("set-location", location=each) for each in ("@location", "file:/warehouse/elsewhere", "file:/etc", "x:")),
    *(
        _update("set-properties", updates=each)
        for each in (
            {"a": "b"},
            {"iceberg-hms.lock": "junk"},
            {"engine.hive.lock-enabled": "junk"},
            {"write.metadata.path": "file:/etc"},
            {"write.metadata.compression-codec": "gzip"},
            {"version.history.num-entries": "1"},
            {"version.history.num-entries": "junk"},
            {"replace.drop-dialect.allowed": "true"},
            {"metadata_location": "file:/x", "table_type": "HIVE", "comment": "\x00"},
        )
    ),
    _update("remove-properties", removals=["a", "iceberg-hms.lock"]),
    _update("add-snapshot", snapshot=snapshot(7)),
)
SCAN_REPORT = {"report-type": "scan-report", "table-name": "events", "snapshot-id": 1, "filter": True, "metrics": {}}

_RENAMES = st.builds(
    lambda source, namespace, name: {
        "source": {"namespace": ["logging"], "name": source},
        "destination": {"namespace": [namespace], "name": name},
    },
    st.sampled_from(NAMES),
    st.sampled_from(NAMESPACES),
    st.sampled_from(NAMES),
)

#: Of scans; each is right, or refused.
FILTERS: Sequence[Any] = (
    {"type": "eq", "term": "level", "value": "ERROR"},
    {"type": "not", "child": {"type": "in", "term": "message", "values": ["a", "b", "\ud800"]}},
    {"type": "and", "left": {"type": "is-null", "term": "level"}, "right": False},
    {"type": "lt", "term": {"type": "transform", "transform": "bucket[4]", "term": "level"}, "value": 1},
    {"type": "eq", "term": "nowhere", "value": 1},
)

#: Path -> what a body for it may be.
BODIES: Mapping[str, st.SearchStrategy[Any]] = {
    "/v1/namespaces": st.builds(
        lambda name, properties: {"namespace": [name], "properties": properties},
        st.sampled_from(("fresh", "logging", "n" * 300, "a b")),
        st.sampled_from(({}, {"owner": "o"}, {"location": "file:/warehouse/n"}, {"location": "x:"}, {"k" * 300: "v"})),
    ),
    "/v1/namespaces/{namespace}/properties": st.sampled_from(
        (
            {"updates": {"a": "b"}, "removals": ["c"]},
            {"updates": {"a": "b"}, "removals": ["a"]},
            {"removals": ["a", "a", "location"]},
            {"updates": {"location": "file:/elsewhere"}},
        )
    ),
    "/v1/namespaces/{namespace}/tables": st.builds(
        lambda name, **others: {"name": name, **{key.replace("_", "-"): value for key, value in others.items()}},
        st.sampled_from(NAMES),
        schema=st.sampled_from((SCHEMA, {**SCHEMA, "fields": [*SCHEMA["fields"], FIELD]}, {**SCHEMA, "fields": []})),
        partition_spec=st.sampled_from((None, SPEC)),
        write_order=st.sampled_from((None, ORDER)),
        location=st.sampled_from((None, "@location", "file:/warehouse/made", "file:/etc", "x:")),
        properties=st.sampled_from(({}, {"format-version": "3"}, {"format-version": "9"}, {"iceberg-hms.lock": "x"})),
        stage_create=st.booleans(),
    ),
    "/v1/namespaces/{namespace}/tables/{table}": st.one_of(
        st.builds(
            lambda requirements, updates: {"requirements": requirements, "updates": updates},
            st.lists(st.sampled_from(REQUIREMENTS), max_size=2),
            st.lists(st.sampled_from(UPDATES), max_size=5),
        ),
        st.sampled_from(("@append-0", "@append-1", "@creation")),
    ),
    "/v1/namespaces/{namespace}/tables/{table}/metrics": st.just(SCAN_REPORT),
    "/v1/namespaces/{namespace}/tables/{table}/plan": st.builds(
        lambda **fields: {key.replace("_", "-"): value for key, value in fields.items() if value is not None},
        filter=st.sampled_from((True, *FILTERS)),
        snapshot_id=st.sampled_from((None, None, None, 1, 2**63 - 1)),
        start_snapshot_id=st.sampled_from((None, None, None, 1)),
        end_snapshot_id=st.sampled_from((None, None, None, 2)),
        select=st.sampled_from((None, [], ["level"], ["x" * 300])),
        stats_fields=st.sampled_from((None, [], ["level", "message"], ["nowhere"])),
        case_sensitive=st.sampled_from((None, True, False)),
        use_snapshot_schema=st.sampled_from((None, True, False)),
        min_rows_requested=st.sampled_from((None, 0, 7, -1)),
    ),
    "/v1/namespaces/{namespace}/tables/{table}/tasks": st.sampled_from(
        ({"plan-task": "x"}, {"plan-task": "A" * 10_000}, {"plan-task": ""}, {"plan-task": "/../%00"})
    ),
    "/v1/namespaces/{namespace}/register": st.builds(
        lambda name, location, overwrite: {"name": name, "metadata-location": location, "overwrite": overwrite},
        st.sampled_from(NAMES),
        st.sampled_from(
            ("@metadata", "@copy", "@list", "file:/warehouse/canary.json", "file:/warehouse/canary-fields.json", "x:")
        ),
        st.booleans(),
    ),
    **dict.fromkeys(("/v1/tables/rename", "/v1/views/rename"), _RENAMES),
    "/v1/namespaces/{namespace}/views": st.builds(
        lambda name, **others: {"name": name, **{key.replace("_", "-"): value for key, value in others.items()}},
        st.sampled_from(NAMES),
        schema=st.sampled_from((SCHEMA, {**SCHEMA, "fields": []})),
        view_version=st.sampled_from(
            (view_version(1), view_version(1, schema_id=7), view_version(1, representations=[]))
        ),
        location=st.sampled_from((None, "@location", "file:/warehouse/made", "file:/etc", "x:")),
        properties=st.sampled_from(({}, {"iceberg-hms.lock": "x"}, {"write.metadata.path": "file:/etc"})),
    ),
    "/v1/namespaces/{namespace}/views/{view}": st.builds(
        lambda requirements, updates: {"requirements": requirements, "updates": updates},
        st.lists(st.sampled_from(VIEW_REQUIREMENTS), max_size=2),
        st.lists(st.sampled_from(VIEW_UPDATES), max_size=5),
    ),
    "/v1/namespaces/{namespace}/register-view": st.builds(
        lambda name, location: {"name": name, "metadata-location": location},
        st.sampled_from(NAMES),
        st.sampled_from(
            ("@metadata", "@copy", "@list", "file:/warehouse/canary.json", "file:/warehouse/canary.txt", "x:")
        ),
    ),
}
#: Paths and their methods as the server has them, and how often each is chosen.
_ROUTES = [(each.method, each.template) for each in (CONFIG, *ENDPOINTS)]
_ROUTES += [("POST", "/v1/namespaces/{namespace}/tables/{table}")] * 12
_ROUTES += [("POST", "/v1/namespaces/{namespace}/tables"), ("POST", "/v1/namespaces/{namespace}/register")] * 3
_ROUTES += [("POST", "/v1/namespaces/{namespace}/views/{view}")] * 6
_ROUTES += [("GET", path) for path in ("/health/ready", "/metrics", "/", "/v1/views", "/v1/oauth/tokens")]


def _rarely(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any], one_in: int) -> st.SearchStrategy[Any]:
    return st.integers(0, one_in - 1).flatmap(lambda number: odd if number == one_in - 1 else usual)


def _mostly(value: Any, odd: st.SearchStrategy[Any], one_in: int) -> st.SearchStrategy[Any]:
    return _rarely(st.just(value), odd, one_in)


_SEGMENT = st.sampled_from(SEGMENTS)
_MUTATION = st.builds(
    Mutation,
    st.integers(0, 10_000),
    st.sampled_from(("replace", "replace", "replace", "remove", "repeat", "wrap", "rename", "twice")),
    st.one_of(st.sampled_from(ODD_VALUES), st.sampled_from(ODD_TEXTS)),
)


@st.composite
def attacks(draw: Any) -> Attack:
    """One request, often right but for one thing."""
    method, template = draw(st.sampled_from(_ROUTES))
    namespace = draw(_rarely(_mostly("logging", st.sampled_from(NAMESPACES), 4), _SEGMENT, 10))
    table = draw(_rarely(st.sampled_from(NAMES), _SEGMENT, 10))
    path = template.replace("{namespace}", namespace).replace("{table}", table)
    path = path.replace("{view}", draw(_mostly("view", st.just(table), 4))).replace("{plan-id}", "AAAA")
    bodies = BODIES.get(template) if method == "POST" else None
    return Attack(
        draw(_mostly(method, st.sampled_from(METHODS), 30)),
        draw(_mostly(path, st.sampled_from((path + "/", path + "//x", "/" + path, path.replace("/v1", "/v1/p"))), 40)),
        draw(_mostly("", st.sampled_from(QUERIES), 4)),
        tuple(draw(_mostly([], st.lists(st.sampled_from(HEADERS), max_size=3), 4))),
        None if bodies is None else draw(bodies),
        tuple(draw(_rarely(st.just([]), st.lists(_MUTATION, min_size=1, max_size=3), 2))) if bodies is not None else (),
        draw(_mostly(1_000, st.integers(0, 999), 40)),
        draw(_mostly(None, st.binary(max_size=64), 40)),
        draw(_mostly(None, st.sampled_from(FAULTS), 30)),
    )


def mutated(body: Any, mutations: Sequence[Mutation]) -> Any:
    """A copy of the body with all mutations, each on what the one before left."""
    for mutation in mutations:
        body = json.loads(json.dumps(body))
        box = [body]
        places: list[tuple[Any, Any]] = [(box, 0), *_places(body)]
        holder, key = places[mutation.place % len(places)]
        value = holder[key]
        match mutation.kind:
            case "replace":
                holder[key] = mutation.value
            case "remove" if holder is not box:
                del holder[key]
            case "repeat" if isinstance(value, list):
                holder[key] = value * 20
            case "wrap":
                holder[key] = [value]
            case "rename" if isinstance(holder, dict):
                holder[str(mutation.value)] = holder.pop(key)
            case "twice" if isinstance(holder, dict):
                holder["@twice"] = [key, mutation.value]
        body = box[0]
    return body


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict | list):
        for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(child)


_TWICE = re.compile(r'"@twice": \[("(?:[^"\\]|\\.)*"), ')
#: What `json` cannot write: a number of many digits, and deep nesting.
_WRITTEN = {'"@digits"': "9" * 5_000, '"@deep"': "[" * 3_000 + "]" * 3_000}


def encode(body: Any) -> bytes:
    """The JSON of a body. A surrogate is written as an escape, a key that is there twice is written twice."""
    text = json.dumps(body)
    # `"@twice": ["key", value]` becomes `"key": [value]`.
    text = _TWICE.sub(r"\1: [", text)
    for word, written in _WRITTEN.items():
        text = text.replace(word, written)
    return text.encode()
