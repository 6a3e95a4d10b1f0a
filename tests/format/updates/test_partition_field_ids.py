"""Which ids partition fields have."""

from __future__ import annotations

from iceberg_hms.format.schema.partition_spec import PartitionField, PartitionSpec
from iceberg_hms.format.schema.transforms import parse_transform
from iceberg_hms.format.updates.partition_field_ids import PartitionFieldIds


def field(source_id: int, field_id: int, transform: str = "identity") -> PartitionField:
    return PartitionField(source_id, field_id, parse_transform(transform), f"f{field_id}")


def spec(*fields: PartitionField) -> PartitionSpec:
    return PartitionSpec.of(fields)


def test_an_equal_field_gives_its_id() -> None:
    ids = PartitionFieldIds([spec(field(1, 1000)), spec(field(2, 1001, "day"))])
    assert ids.id_of(field(2, 0, "day")) == 1001
    assert ids.id_of(field(2, 0)) is None


def test_of_several_ids_the_last_counts() -> None:
    ids = PartitionFieldIds([spec(field(1, 1000)), spec(field(1, 1001)), spec(field(1, 1000))])
    assert ids.id_of(field(1, 0)) == 1000


def test_an_id_of_another_field_is_taken() -> None:
    ids = PartitionFieldIds([spec(field(1, 1000)), spec(field(2, 1000))])
    assert ids.belongs_to_another(field(3, 1000))
    assert not ids.belongs_to_another(field(2, 1000))
    assert not ids.belongs_to_another(field(3, 1001))


def test_a_removed_spec_gives_its_ids_back_unless_another_has_them() -> None:
    first, second = spec(field(1, 1000), field(2, 1001)), spec(field(1, 1000))
    ids = PartitionFieldIds([first, second])
    ids.remove(first)
    assert ids.id_of(field(1, 0)) == 1000
    assert ids.id_of(field(2, 0)) is None
    assert not ids.belongs_to_another(field(9, 1001))
    assert ids.belongs_to_another(field(9, 1000))
