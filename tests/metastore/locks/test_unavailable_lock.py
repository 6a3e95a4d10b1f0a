"""For how long a lock may still be swapped under, by what the servers are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_hms.config import Settings
from iceberg_hms.errors import MetastoreUnavailable
from iceberg_hms.metastore.compare_and_swap.findings import CompareAndSwap
from iceberg_hms.metastore.connection.capabilities import Capabilities
from iceberg_hms.metastore.locks import lease, unavailable_lock

SERVER = Capabilities("thrift://a:1", "2.x", False, None, False, CompareAndSwap.ATOMIC, None, ())


@pytest.mark.parametrize(
    ("verdicts", "told", "seconds"),
    [
        ([CompareAndSwap.ATOMIC, CompareAndSwap.ATOMIC], 120.0, 0.0),
        ([CompareAndSwap.ATOMIC, CompareAndSwap.CHECKED], 120.0, 720.0),
        ([CompareAndSwap.IGNORED, CompareAndSwap.ATOMIC], None, 900.0),
        ([CompareAndSwap.ATOMIC, None], 120.0, 720.0),
    ],
)
def test_only_where_every_server_is_proven_nothing_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, verdicts: list[CompareAndSwap | None], told: float | None, seconds: float
) -> None:
    settings = Settings.load({"uri": "thrift://a:1,thrift://b:1"}, environ={})
    answers = dict(zip(settings.metastore_uris, verdicts, strict=True))

    def probe(uri: str, *_: object, namespace: str, **__: object) -> Capabilities:
        assert namespace == "sales"
        verdict = answers[uri]
        if verdict is None:
            raise MetastoreUnavailable("down")
        return replace(SERVER, uri=uri, compare_and_swap=verdict)

    monkeypatch.setattr(unavailable_lock, "probe", probe)
    monkeypatch.setattr(lease, "lease_seconds", lambda pool: told)
    assert unavailable_lock.leftover_seconds(object(), settings, "sales") == seconds  # type: ignore[arg-type]
