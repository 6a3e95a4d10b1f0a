"""Two callers with table objects of different ages, beside a model: a graph of snapshots and refs in plain Python.

The model says what each operation must do, or that it is refused. Beside it one rule is checked that needs no model: no
operation takes a file out of a branch that its caller had not seen there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from iceberg_hms.catalog.table import Table
from iceberg_hms.errors import InvalidInput, RequirementFailed
from iceberg_hms.format.manifests.manifest import DataFile
from iceberg_hms.testing.memory_catalog import memory_catalog

SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
NAMES = ("main", "audit", "other")
CALLERS = st.sampled_from([0, 1])
REFS = st.sampled_from(NAMES)
KINDS = st.sampled_from(["branch", "tag"])
#: A snapshot by the order of their making, modulo how many there are.
ANY = st.integers(0, 1_000)


@dataclass(frozen=True)
class ModelSnapshot:
    """file: that it added; None for an empty one."""

    parent: int | None
    file: str | None
    wap_id: str | None = None
    source: int | None = None
    published: str | None = None


@dataclass
class Model:
    """refs: name -> kind and snapshot. seen: the refs as each caller's table object has them."""

    snapshots: dict[int, ModelSnapshot] = field(default_factory=dict)
    refs: dict[str, tuple[str, int]] = field(default_factory=dict)
    log: list[int] = field(default_factory=list)
    seen: list[dict[str, tuple[str, int]]] = field(default_factory=lambda: [{}, {}])

    def head(self, name: str) -> int | None:
        return self.refs[name][1] if name in self.refs else None

    def is_branch(self, name: str) -> bool:
        return self.refs.get(name, ("", 0))[0] == "branch"

    def history(self, snapshot_id: int | None) -> Iterator[int]:
        while snapshot_id is not None:
            yield snapshot_id
            snapshot_id = self.snapshots[snapshot_id].parent

    def files(self, snapshot_id: int | None) -> list[str]:
        return sorted(file for each in self.history(snapshot_id) if (file := self.snapshots[each].file) is not None)

    def move(self, name: str, snapshot_id: int, kind: str = "branch") -> None:
        if name == "main" and self.head(name) != snapshot_id:
            self.log.append(snapshot_id)
        self.refs[name] = (kind, snapshot_id)

    def has_seen(self, caller: int, name: str) -> bool:
        known = self.seen[caller].get(name)
        return (None if known is None else known[1]) == self.head(name)


class RefsMachine(RuleBasedStateMachine):
    """Hypothesis chooses the calls."""

    @initialize(version=st.sampled_from([1, 2, 3]), filled=st.booleans())
    def create(self, version: int, filled: bool) -> None:
        self.catalog = memory_catalog()
        self.catalog.create_namespace("logging")
        self.catalog.create_table("logging.events", SCHEMA, properties={"format-version": str(version)})
        self.tables: list[Table] = [self.catalog.load_table("logging.events") for _ in range(2)]
        self.model = Model()
        self.count = 0
        if filled:
            # What two callers do to an empty table seldom gets to a branch with commits of its own.
            self.append(0, "main")
            self.create_ref(0, "audit", "branch", None)
            self.append(0, "audit")
            self.refresh(1)

    def teardown(self) -> None:
        if hasattr(self, "catalog"):
            self.catalog.close()

    @rule(caller=CALLERS)
    def refresh(self, caller: int) -> None:
        self.tables[caller].refresh()
        self.model.seen[caller] = dict(self.model.refs)

    @rule(caller=CALLERS, branch=REFS)
    def append(self, caller: int, branch: str) -> None:
        self._append(caller, branch, None, staged=False)

    @rule(caller=CALLERS, wap_id=st.sampled_from([None, "w"]))
    def stage(self, caller: int, wap_id: str | None) -> None:
        self._append(caller, "main", wap_id, staged=True)

    def _append(self, caller: int, branch: str, wap_id: str | None, *, staged: bool) -> None:
        model = self.model
        self.count += 1
        name = f"f{self.count:03}"
        file = DataFile(f"file:/in/{name}", "PARQUET", 1, 10)
        is_possible = branch not in model.refs or model.is_branch(branch)
        parent = model.head(branch if branch in model.refs else "main")

        def apply() -> None:
            made = self._new_snapshot()
            model.snapshots[made] = ModelSnapshot(parent, name, wap_id)
            if not staged:
                model.move(branch, made)

        call = lambda: self.tables[caller].append([file], branch=branch, wap_id=wap_id, stage_only=staged)  # noqa: E731
        self._expect(caller, call, apply if is_possible else None)

    @rule(caller=CALLERS, name=REFS, kind=KINDS, at=st.none() | ANY)
    def create_ref(self, caller: int, name: str, kind: str, at: int | None) -> None:
        model, table = self.model, self.tables[caller]
        target = self._some(at)
        wanted = model.head("main") if at is None else target
        starts_empty = kind == "branch" and at is None and "main" not in model.refs
        is_possible = (
            name not in model.refs and (kind, name) != ("tag", "main") and (wanted is not None or starts_empty)
        )
        if at is not None and not model.snapshots:
            is_possible, target = False, 7

        def apply() -> None:
            made = wanted
            if made is None:
                made = self._new_snapshot()
                model.snapshots[made] = ModelSnapshot(None, None)
            model.move(name, made, kind)

        create = table.create_branch if kind == "branch" else table.create_tag
        self._expect(caller, lambda: create(name, None if at is None else target), apply if is_possible else None)

    @rule(caller=CALLERS, name=REFS, kind=KINDS, at=ANY, discard=st.booleans())
    def replace_ref(self, caller: int, name: str, kind: str, at: int, discard: bool) -> None:
        model, table, target = self.model, self.tables[caller], self._some(at)
        is_possible = model.refs.get(name, ("", 0))[0] == kind and (discard or model.has_seen(caller, name))
        replace = table.replace_branch if kind == "branch" else table.replace_tag
        self._expect(
            caller,
            lambda: replace(name, target or 7, on_unseen_commits="discard" if discard else "refuse"),
            (lambda: model.move(name, target or 7, kind)) if is_possible else None,
            discard=discard,
        )

    @rule(caller=CALLERS, name=REFS, kind=KINDS)
    def remove_ref(self, caller: int, name: str, kind: str) -> None:
        model, table = self.model, self.tables[caller]
        is_kind = model.refs.get(name, ("", 0))[0] == kind
        is_possible = is_kind and name != "main" and model.has_seen(caller, name)
        remove = table.remove_branch if kind == "branch" else table.remove_tag
        self._expect(caller, lambda: remove(name), (lambda: model.refs.pop(name)) if is_possible else None)

    @rule(caller=CALLERS, name=REFS, new_name=REFS)
    def rename_branch(self, caller: int, name: str, new_name: str) -> None:
        model = self.model
        is_possible = name != "main" and model.is_branch(name) and new_name not in model.refs

        def apply() -> None:
            kind, head = model.refs.pop(name)
            model.move(new_name, head, kind)

        call = lambda: self.tables[caller].rename_branch(name, new_name)  # noqa: E731
        self._expect(caller, call, apply if is_possible else None, renamed=new_name)

    @rule(caller=CALLERS, branch=REFS, to=REFS)
    def fast_forward(self, caller: int, branch: str, to: str) -> None:
        model = self.model
        target, head = model.head(to), model.head(branch)
        is_possible = target is not None and model.has_seen(caller, to)
        if head is not None:
            is_possible = is_possible and model.is_branch(branch) and head in model.history(target)
        self._expect(
            caller,
            lambda: self.tables[caller].fast_forward(branch, to),
            (lambda: model.move(branch, target or 7)) if is_possible else None,
        )

    @rule(caller=CALLERS, at=ANY, discard=st.booleans())
    def rollback_to(self, caller: int, at: int, discard: bool) -> None:
        model, target = self.model, self._some(at)
        is_possible = target is not None and target in model.history(model.head("main"))
        is_possible = is_possible and (discard or model.has_seen(caller, "main"))
        self._expect(
            caller,
            lambda: self.tables[caller].rollback_to_snapshot(
                target or 7, on_unseen_commits="discard" if discard else "refuse"
            ),
            (lambda: model.move("main", target or 7)) if is_possible else None,
            discard=discard,
        )

    @rule(caller=CALLERS, at=ANY)
    def set_current_snapshot(self, caller: int, at: int) -> None:
        model, target = self.model, self._some(at)
        is_possible = target is not None and model.has_seen(caller, "main")
        self._expect(
            caller,
            lambda: self.tables[caller].set_current_snapshot(target or 7),
            (lambda: model.move("main", target or 7)) if is_possible else None,
        )

    @rule(caller=CALLERS, at=ANY)
    def cherry_pick(self, caller: int, at: int) -> None:
        target = self._some(at)
        apply = None if target is None else self._pick(target)
        self._expect(caller, lambda: self.tables[caller].cherry_pick(target or 7), apply)

    @rule(caller=CALLERS)
    def publish_changes(self, caller: int) -> None:
        staged = [id_ for id_, each in self.model.snapshots.items() if each.wap_id == "w"]
        apply = self._pick(staged[0]) if len(staged) == 1 else None
        self._expect(caller, lambda: self.tables[caller].publish_changes("w"), apply)

    def _pick(self, picked: int) -> Callable[[], None] | None:
        """What a pick does; None if it is refused."""
        model, head = self.model, self.model.head("main")
        snapshot = model.snapshots[picked]
        for id_ in model.history(head):
            each = model.snapshots[id_]
            if picked in (id_, each.source) or (snapshot.wap_id and snapshot.wap_id in (each.wap_id, each.published)):
                return None
        if head == snapshot.parent:
            return lambda: model.move("main", picked)
        if snapshot.file in model.files(head):
            return None

        def apply() -> None:
            made = self._new_snapshot()
            model.snapshots[made] = ModelSnapshot(head, snapshot.file, None, picked, snapshot.wap_id)
            model.move("main", made)

        return apply

    def _expect(
        self,
        caller: int,
        call: Callable[[], object],
        apply: Callable[[], object] | None,
        *,
        discard: bool = False,
        renamed: str | None = None,
    ) -> None:
        """Make the call, which must do what `apply` does to the model; None: it must be refused, and change nothing."""
        before = self._contents()
        known = {name: self.model.files(head) for name, (_, head) in self.model.seen[caller].items()}
        if apply is None:
            try:
                call()
            except (RequirementFailed, InvalidInput):
                return
            raise AssertionError("this was not refused")
        call()
        apply()
        self.model.seen[caller] = dict(self.model.refs)
        after = self._contents()
        for name, files in before.items():
            lost = set(files) - set(after.get(name if renamed is None or name in after else renamed, ()))
            assert discard or lost <= set(known.get(name, ())), f"{name} lost {lost}, which its caller had not seen"

    def _contents(self) -> dict[str, list[str]]:
        """The files of each branch, as the catalog has them."""
        table = self.catalog.load_table("logging.events")
        manifests = self.catalog.services.ports.manifests()
        return {
            name: sorted(
                entry.data_file.file_path.rpartition("/")[2]
                for entry in manifests.entries(manifests.list(table.ancestors(name)[0]))
                if entry.is_live
            )
            for name, ref in table.refs().items()
            if ref.is_branch
        }

    def _new_snapshot(self) -> int:
        (made,) = (
            each.snapshot_id
            for each in self.catalog.load_table("logging.events").snapshots()
            if each.snapshot_id not in self.model.snapshots
        )
        return made

    def _some(self, at: int | None) -> int | None:
        ids = list(self.model.snapshots)
        return ids[at % len(ids)] if at is not None and ids else None

    @invariant()
    def the_table_is_the_model(self) -> None:
        model = self.model
        table = self.catalog.load_table("logging.events")
        assert {name: (ref.type, ref.snapshot_id) for name, ref in table.refs().items()} == model.refs
        assert [entry.snapshot_id for entry in table.history()] == model.log
        assert {each.snapshot_id: each.parent_snapshot_id for each in table.snapshots()} == {
            id_: each.parent for id_, each in model.snapshots.items()
        }
        assert self._contents() == {
            name: model.files(head) for name, (kind, head) in model.refs.items() if kind == "branch"
        }
