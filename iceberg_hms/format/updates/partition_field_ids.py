"""Which ids the partition fields of a table have (spec: Partitioning): equal fields of different specs share one."""

from __future__ import annotations

from collections.abc import Iterable

from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec


class PartitionFieldIds:
    """The fields of some specs, by what they are and by id. A table upgraded from v1 may have several fields with one
    id, and several ids of equal fields."""

    def __init__(self, specs: Iterable[PartitionSpec]) -> None:
        # How many specs have a field so, by its identity and its id.
        self._ids: dict[str, dict[int, int]] = {}
        self._identities: dict[int, dict[str, int]] = {}
        for spec in specs:
            self.add(spec)

    def id_of(self, field: PartitionField) -> int | None:
        """The id that an equal field got last; None if there is none."""
        ids = self._ids.get(_identity(field))
        return next(reversed(ids)) if ids else None

    def belongs_to_another(self, field: PartitionField) -> bool:
        """Whether the id of this field is that of other fields, and of no equal one."""
        known = self._identities.get(field.field_id)
        return bool(known) and _identity(field) not in (known or ())

    def add(self, spec: PartitionSpec) -> None:
        for field in spec.fields:
            identity, id_ = _identity(field), field.field_id
            ids, identities = self._ids.setdefault(identity, {}), self._identities.setdefault(id_, {})
            # Put in anew, so that the last one is last.
            ids[id_] = ids.pop(id_, 0) + 1
            identities[identity] = identities.get(identity, 0) + 1

    def remove(self, spec: PartitionSpec) -> None:
        """Of a spec that was added."""
        for field in spec.fields:
            identity, id_ = _identity(field), field.field_id
            _lower(self._ids[identity], id_)
            _lower(self._identities[id_], identity)


def _identity(field: PartitionField) -> str:
    # As text, which Python hashes with a secret: nobody can make up fields that collide.
    return f"{field.source_id} {field.more_source_ids} {field.transform}"


def _lower(counts: dict[int, int] | dict[str, int], key: int | str) -> None:
    counts[key] -= 1  # type: ignore[index]
    if not counts[key]:  # type: ignore[index]
        del counts[key]  # type: ignore[arg-type]
