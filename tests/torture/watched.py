"""One table, and a plain model of the expected rows of each branch.

A writer's ``effect`` is applied to its branch's model at the exact step at which the table's pointer moves, and from then on every
reader has to see it; a snapshot keeps the rows of its first read. ``reading`` computes what readers see. A snapshot that is leased
while it is in the table keeps its files until the lease is returned or expires, as if it were retained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.torture import reading, sights
from tests.torture.reading import Layout, LiveFile, Metadata, Place
from tests.torture.rows import Model, Row, difference, normal
from tests.torture.stepping import Writer

if TYPE_CHECKING:
    from tests.torture.world import World

MAIN = "main"


@dataclass(frozen=True)
class Seen:
    """A snapshot when it was made: its rows as they are read with ``kind`` of that field id, and every file its readers need (by
    identity)."""

    rows: Model
    kind_id: int | None
    layout: Layout
    files: frozenset[str]


class Watched:
    """A table of the world, identified by its uuid."""

    def __init__(self, world: World, uuid: str) -> None:
        self.world, self.uuid = world, uuid
        self.metadata: Metadata = {}
        self.location: str | None = None
        """Of the current metadata file."""
        self.locations: list[str] = []
        """Every location of the table, in order."""
        self.models: dict[str, Model] = {MAIN: ()}
        self.heads: dict[str, int | None] = {MAIN: None}
        self.ids: dict[str, dict[tuple[Any, ...], int | None]] = {}
        """Row ids by branch, which maintenance must not change."""
        self.seen: dict[int, Seen] = {}
        self.needed: frozenset[str] = frozenset()
        self.published: set[int] = set()
        """Staged snapshots whose rows a branch got."""
        self.kinds: list[int | None] = [None]
        """Field ids that ``kind`` has had one after the other; None where there was no such column."""
        self.before: list[Place] = []
        """Rows, with their places, of the parent of the snapshot that is being checked."""
        self.coming: list[LiveFile] = []
        """Data files of that snapshot that its parent does not have, or has fewer times."""
        self.doubled = False
        """Some file is live twice, because of an import with check-duplicate-files=false."""

    def copy(self) -> Watched:
        found = Watched(self.world, self.uuid)
        vars(found).update({name: value.copy() if hasattr(value, "copy") else value for name, value in vars(self).items()})
        return found

    @property
    def snapshots(self) -> dict[int, Mapping[str, Any]]:
        return {s["snapshot-id"]: s for s in self.metadata.get("snapshots", ())}

    @property
    def kind_id(self) -> int | None:
        return reading.kind_id(self.metadata)

    # the checks

    def moved(self, location: str, metadata: Metadata, writer: Writer | None) -> None:
        """The pointer has moved to other metadata: update the models, and check that the table shows their rows."""
        known = set(self.snapshots)
        self.world.looking = self
        if metadata["format-version"] > self.metadata.get("format-version", 3) and len(self.world.active) > 1:
            self.world.seen("upgraded with others at work")
        self.location, self.metadata = location, metadata
        self.locations += [place for place in [metadata["location"]] if place not in self.locations]
        self.world.seen(*sights.of_metadata(metadata))
        self.models = {name: normal(model, self.kind_id) for name, model in self.models.items()}
        self._kind_came_back()
        moved = self._heads_moved(writer)
        new = tuple(i for i in self.snapshots if i not in known)
        for snapshot_id, snapshot in self.snapshots.items():
            if snapshot_id not in self.seen:
                self._first_seen(snapshot, writer)
            assert snapshot.get("manifest-list") == self.seen[snapshot_id].layout.manifest_list
        self._published()
        retained = [self.seen[i].files for i in self.snapshots]
        identity = self.world.storage.identity
        statistics = [*metadata.get("statistics", ()), *metadata.get("partition-statistics", ())]
        self.needed = frozenset().union(*retained) | {identity(location), *(identity(s["statistics-path"]) for s in statistics)}
        if writer is not None and writer.act is not None:
            self.world.acts.landed(writer.act, self, new)
        if moved and writer is not None and writer.kind.startswith("foreign") and writer.branch != MAIN:
            self.world.seen("another engine on a branch")
        if moved:
            self.world.count("commits", "setup" if writer is None else writer.kind)

    def _kind_came_back(self) -> None:
        """An older schema is current again: older files show values that the models no longer have. The values that readers see now
        are taken into the models."""
        if self.kind_id == self.kinds[-1]:
            return
        came_back = self.kind_id is not None and self.kind_id in self.kinds
        self.kinds.append(self.kind_id)
        if not came_back:
            return
        for branch, head in self.heads.items():
            self.models[branch] = self._with_values(self.models[branch], self.snapshots.get(head or 0))
        for snapshot_id in self.seen.keys() & self.snapshots.keys():
            seen = self.seen[snapshot_id]
            rows = self._with_values(normal(seen.rows, self.kind_id), self.snapshots[snapshot_id])
            self.seen[snapshot_id] = replace(seen, rows=rows, kind_id=self.kind_id)

    def _with_values(self, model: Model, snapshot: Mapping[str, Any] | None) -> Model:
        found = tuple(p.row for p in self.places(snapshot))
        wrong = difference([r._replace(kind=None) for r in model], [r._replace(kind=None) for r in found])
        assert not wrong, f"when a column came back: {wrong}"
        return found

    def _heads_moved(self, writer: Writer | None) -> bool:
        heads = branch_heads(self.metadata)
        moved = [name for name, head in heads.items() if self.heads.get(name) != head]
        for name in moved:
            assert writer is None or writer.branch == name, f"{writer.kind} on {writer.branch} moved {name}"
            snapshot = None if heads[name] is None else self.snapshots[heads[name] or 0]
            model = self.models[name] if name in self.models else self._rows_it_began_with(snapshot)
            self._compare(snapshot)
            wanted = model if writer is None or writer.effect is None else writer.effect(model)
            self.models[name] = normal(wanted, self.kind_id)
            found = self.places(snapshot)
            wrong = difference(self.models[name], [p.row for p in found])
            assert not wrong, f"after {writer and writer.kind} on {name}: {wrong}"
            assert name != MAIN or self.fit(self.models[name]), f"{writer and writer.kind} brought rows of former columns to main"
            self._check_row_ids(name, found, writer)
        for name in self.models.keys() - heads.keys():
            del self.models[name]
            self.ids.pop(name, None)
        self.heads = heads
        return bool(moved)

    def _check_row_ids(self, branch: str, found: list[Place], writer: Writer | None) -> None:
        given = [p.row_id for p in found if p.row_id is not None]
        assert len(given) == len(set(given)), "two rows have one row id"
        now = {p.row[:3]: p.row_id for p in found}
        if writer is not None and (writer.keeps_ids or writer.effect is None) and branch in self.ids and len(now) == len(found):
            known = {writer.becomes(Row(*r))[:3]: i for r, i in self.ids[branch].items() if i is not None}
            changed = [r for r, i in known.items() if now.get(r, i) != i]
            assert not changed, f"{writer.kind} on {branch} gave other row ids to {changed}"
        self.ids[branch] = now

    def _rows_it_began_with(self, head: Mapping[str, Any] | None) -> Model:
        """A branch that a commit created begins with the rows that its writer saw."""
        at = head
        while at is not None and at["snapshot-id"] not in self.seen:
            at = self.parent_of(at)
        return () if at is None else self.seen[at["snapshot-id"]].rows

    def _first_seen(self, snapshot: Mapping[str, Any], writer: Writer | None) -> None:
        """A new snapshot is the head of the writer's branch, or one that no branch leads to yet."""
        branch = next((name for name, head in self.heads.items() if head == snapshot["snapshot-id"]), None)
        layout = self.world.files.layout_of(self.metadata, snapshot)
        if branch is not None:
            rows = self.models[branch]
        else:
            assert writer is not None
            assert writer.beside is not None, f"{writer.kind} left a snapshot beside its branch"
            parent = self.seen.get(snapshot.get("parent-snapshot-id") or 0)
            self._compare(snapshot)
            rows = normal(writer.beside(() if parent is None else parent.rows), self.kind_id)
            wrong = difference(rows, [p.row for p in self.places(snapshot)])
            assert not wrong, f"in a snapshot beside the branch, by {writer.kind}: {wrong}"
        files = frozenset(map(self.world.storage.identity, layout.files))
        missing = [f for f in files if not self.world.storage.io.exists(f)]
        assert not missing, f"{writer and writer.kind} committed a snapshot whose files are gone: {missing}"
        self.seen[snapshot["snapshot-id"]] = Seen(rows, self.kind_id, layout, files)
        manifests = reading.manifests_in(self.world.files, snapshot)
        self.world.seen(*sights.of_snapshot(self.metadata, snapshot, layout, manifests))
        paths = [f.path for f in layout.live if f.content == reading.DATA]
        self.doubled = self.doubled or len(paths) > len(set(paths))

    def _compare(self, snapshot: Mapping[str, Any] | None) -> None:
        """Compare the snapshot with its model; its parent's rows are kept for the effects of writers."""
        parent = None if snapshot is None else self.parent_of(snapshot)
        self.before = self.places(parent)
        known = Counter(() if parent is None else (f.path for f in self.world.files.layout_of(self.metadata, parent).live))
        self.coming = []
        for f in () if snapshot is None else self.world.files.layout_of(self.metadata, snapshot).live:
            known[f.path] -= 1
            if f.content == reading.DATA and known[f.path] < 0:
                self.coming.append(f)

    def parent_of(self, snapshot: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self.snapshots.get(snapshot.get("parent-snapshot-id") or 0)

    def in_partitions(self, partitions: Iterable[tuple[int, tuple[Any, ...]]]) -> list[Row]:
        """Rows of the parent in those partitions (spec id, tuple): all of them where a spec has no partition field."""
        where = set(partitions)
        everything = any(reading.is_unpartitioned(reading.spec_of(self.metadata, spec_id)) for spec_id, _ in where)
        return [p.row for p in self.before if everything or (p.file.spec_id, p.file.partition) in where]

    def _published(self) -> None:
        for snapshot in self.metadata.get("snapshots", ()):
            if (source := snapshot.get("summary", {}).get("source-snapshot-id")) is not None:
                self.published.add(int(source))
        self.published |= {head for head in self.heads.values() if head is not None}

    # rows that a reader sees

    def places(self, snapshot: Mapping[str, Any] | None) -> list[Place]:
        """Every row of a snapshot that a reader with the table's schema sees."""
        return self.world.files.places(self.metadata, snapshot, self.kind_id)

    def fit(self, rows: Iterable[Row]) -> bool:
        """Whether the table's columns can hold them: another engine may have replaced the table since they were written."""
        return all(reading.fits(self.metadata, self.metadata["current-schema-id"], row) for row in rows)

    def head(self, branch: str) -> Mapping[str, Any] | None:
        found = self.heads.get(branch, self.heads[MAIN])
        return None if found is None else self.snapshots[found]

    def rows(self, branch: str) -> list[Row]:
        """The branch's rows in a fixed order, main's where there is no such branch."""
        return sorted(self.models.get(branch, self.models[MAIN]), key=lambda r: (str(r.region), r.id, r.version))

    def reread(self) -> None:
        """Every retained snapshot, from storage."""
        for branch, model in self.models.items():
            wrong = difference(model, [p.row for p in self.places(self.head(branch))])
            assert not wrong, f"{branch}: {wrong}"
        for snapshot_id, snapshot in self.snapshots.items():
            seen = self.seen[snapshot_id]
            wrong = difference(seen.rows, [p.row for p in self.world.files.places(self.metadata, snapshot, seen.kind_id)])
            assert not wrong, f"snapshot {snapshot_id}: {wrong}"


def branch_heads(metadata: Metadata) -> dict[str, int | None]:
    refs = metadata.get("refs", {})
    found: dict[str, int | None] = {name: ref["snapshot-id"] for name, ref in refs.items() if ref["type"] == "branch"}
    current = metadata.get("current-snapshot-id")
    return {MAIN: None if current in (None, -1) else current, **found}
