"""The world that a seed draws: format, catalog, storage, layout, properties, possible faults. Each part has a name that is counted.

Most worlds have few oddities, so that a fault caused by one is not hidden by another that refuses the work first; every pair of
oddities is drawn somewhere.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.torture.storage import HDFS_PREFIXES, PERCENT, S3_SCHEMES

SPELLINGS: dict[str, tuple[str, ...]] = {
    "memory": ("plain", PERCENT),
    "disk": ("plain", "//", "/./", "/../", "file:", "file:///", "file://localhost", "link", PERCENT),
    "s3": ("plain", *S3_SCHEMES, PERCENT),
    "hdfs": ("plain", *HDFS_PREFIXES, "//", "/../", PERCENT),
}
"""How a table's files, or its warehouse, are spelled in each store. ``link``: through a symbolic link. ``PERCENT``: a place whose
name would be another if an engine decoded it."""
DISK_ALIASES = SPELLINGS["disk"][1:-1]
IS_PLACE = ("plain", PERCENT)
"""Those that are no aliases of a place."""
PLACES = [(store, how) for store, known in SPELLINGS.items() if store != "memory" for how in known]
ALIASES = [(store, how) for store, how in PLACES if how not in IS_PLACE]
THEMES: dict[str, tuple[dict[str, Any], Mapping[str, float]]] = {
    "all": ({}, {}),
    "another engine's spec": (
        {"evolves": True, "foreign": True, "layout": "region"},
        {"foreign upsert": 4, "compact": 3, "sort": 1, "partitioning": 1},
    ),
    "keys that move": ({"evolves": True, "layout": "region"}, {"upsert job": 4, "compact": 3, "bucket comes or goes": 3}),
    "dropped keys": (
        {"columns_come_back": True, "foreign": True, "layout": "none"},
        {"upsert": 2, "foreign upsert": 4, "kind comes or goes": 3, "column set back": 1, "compact": 4, "expire": 2, "append": 1},
    ),
    "another engine's removals": (
        {"foreign": True, "layout": "none"},
        {"foreign delete": 4, "delete": 3, "update": 2, "update job": 1, "compact": 1, "append": 1},
    ),
    "imports": ({"imports": True, "tables": 1}, {"import": 5, "roll back": 3, "expire": 2, "orphans": 2}),
    "names": ({"tables": 2, "catalog": "pointer", "store": "memory"}, {"swap names": 3, "expire": 4, "append": 2, "orphans": 1}),
    "old keys": ({"short_ledger": True, "keyless": False}, {"roll back": 4, "expire": 3, "append": 3}),
    "started again": ({"zombies": True, "keyless": False}, {"append job": 3, "update job": 2, "delete job": 2, "orphans": 3}),
    "no answer": ({"raises": True, "keyless": True}, {"stage and publish": 4, "append": 4, "pick everywhere": 2}),
    "another engine's habits": (
        {"foreign": True, "layout": "none", "columns_come_back": False, "raises": False},
        {"foreign delete": 3, "foreign upsert": 3, "foreign compact": 1, "update": 4, "delete": 2, "merge": 1, "append": 2},
    ),
    "another engine's snapshots": (
        {"foreign": True, "more_foreign": True},
        {
            **{"foreign stage": 6, "publish": 5, "foreign pick": 3, "pick": 2, "foreign compact": 1, "foreign expiry": 0.7},
            **{
                "foreign delete": 1,
                "update": 1,
                "delete": 1,
                "append": 2,
                "expire": 0.5,
                "roll back": 1,
                "branch or tag": 1,
                "compact": 1,
            },
        },
    ),
    "imports again": (
        {"imports": True, "tables": 1, "rolled": True},
        {"import": 5, "roll back": 4, "expire": 4, "append": 1, "compact": 1},
    ),
    "staged and expired": (
        {"zombies": True, "keyless": False, "raises": False},
        {"append job": 5, "expire": 4, "append": 1, "stage and publish": 1},
    ),
    "moves": (
        {"moves": True, "catalog": "pointer"},
        {
            **{"move": 3, "data path": 2, "orphans": 4, "expire": 2, "append job": 2, "update job": 1},
            **{"compact": 2, "append": 2, "pick": 1},
        },
    ),
}
"""Name -> (its requirement, its kinds of writers with their weights; none: all). Many faults need certain kinds of writers at the
same time; with few kinds they meet more often."""
ALL_KINDS = 0.6
"""Share of worlds with all kinds of writers, of those without one of ``LATER_THEMES``."""
LATER_THEMES = {
    **{"another engine's habits": 0.05, "another engine's snapshots": 0.05, "imports again": 0.03, "moves": 0.03},
    "staged and expired": 0.03,
}
"""Themes with their shares, drawn with their own random numbers, so that other worlds keep their seeds."""
LAYOUTS = ("region", "none", "bucket", "kind", "truncate", "region and bucket")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One world. ``store``: a key of ``SPELLINGS``; ``spelled``: its data path; ``aliases``: further spellings of the warehouse
    that some writers are configured with (file-system catalog)."""

    version: int = 2
    catalog: str = "pointer"
    store: str = "memory"
    layout: str = "region"
    granularity: str = "partition"
    spelled: str = "plain"
    aliases: tuple[str, ...] = ()
    tables: int = 1
    evolves: bool = False
    """Partition specs change."""
    columns_come_back: bool = False
    """``kind`` is dropped, and added again or set back."""
    foreign: bool = False
    """A writer of another engine, which validates nothing and works on the spec it began with."""
    rolled: bool = False
    """Most manifests have one entry."""
    short_log: bool = False
    """The metadata log holds one previous version, and older files are deleted."""
    shared_keys: bool = False
    """Run keys are used for more than one piece of work, or there is none."""
    keyless: bool = False
    """No work has a run key."""
    short_ledger: bool = False
    zombies: bool = False
    """Jobs are started again while their first run is still at work, and time jumps past leases."""
    imports: bool = False
    raises: bool = False
    """Exceptions at every kind of boundary."""
    uuids_differ: bool = False
    """Versions spell their table's uuid in upper and in lower case; a v1 table gets it with its first commit."""
    theme: str = "all"
    """A name in ``THEMES``."""
    replaced: bool = field(default=False, repr=False)
    """Another engine replaces tables (CREATE OR REPLACE TABLE)."""
    lodger: bool = field(default=False, repr=False)
    """Of two tables the second writes its data below the location of the first."""
    more_foreign: bool = field(default=False, repr=False)
    """The other engine also stages snapshots and picks them, compacts, and expires snapshots."""
    moves: bool = field(default=False, repr=False)
    """The table's location and data path change."""
    codecs: bool = field(default=False, repr=False)
    """Metadata files are compressed, and no longer."""
    unknowing: bool = field(default=False, repr=False)
    """The other engine's manifest lists have numbers below 0 for earlier manifests."""
    avro: bool = field(default=False, repr=False)
    """Data and delete files are Avro."""
    orc: bool = field(default=False, repr=False)
    """The other engine writes ORC files, and imported ones are ORC."""
    embedded: bool = field(default=False, repr=False)
    """The other engine gives snapshots of v1 tables no manifest list: metadata names their manifests."""

    @property
    def names(self) -> list[str]:
        """The names of the drawn parts, for counting."""
        found = [f"v{self.version}", f"catalog {self.catalog}", f"store {self.store}", f"layout {self.layout}"]
        found += [f"granularity {self.granularity}", f"theme {self.theme}"]
        found += [f"data path {self.store} {self.spelled}"]
        found += [f"warehouse {self.store} {alias}" for alias in self.aliases]
        found += ["two tables"] if self.tables > 1 else []
        return found + [name.replace("_", " ") for name in (*_ODDITIES, *_DRAWN_LAST) if getattr(self, name)]

    @property
    def habits(self) -> tuple[float, float]:
        """How often the other engine adds files to a copy of an older manifest, and calls what it does an append."""
        return (0.6, 0.6) if self.theme == "another engine's habits" else (0.3, 0.2)

    @property
    def faults(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Kinds of exceptions, and boundaries; none: all of them."""
        if self.theme != "no answer":
            return (), ()
        return ("unavailable", "time-out", "I/O error"), ("wrote metadata", "moved", "swapped", "pointer", "loaded")

    @property
    def stages(self) -> float:
        """How many append jobs stage their rows."""
        return 0.8 if self.theme == "staged and expired" else 0.2

    @property
    def submits_late(self) -> float:
        """How often finished work is submitted once more much later; never where another engine's expiry forgets run keys."""
        if self.more_foreign:
            return 0.0
        return 0.5 if self.theme in ("old keys", "staged and expired") else 0.02

    @property
    def unanswered(self) -> float:
        """How many swaps of a pointer get no answer; half of these happen."""
        return 0.3 if self.theme == "no answer" else 0.06

    @property
    def ledger(self) -> int | None:
        return 3 if self.short_ledger else None


_ODDITIES: dict[str, float] = {
    "evolves": 0.4,
    "columns_come_back": 0.15,
    "foreign": 0.3,
    "rolled": 0.25,
    "short_log": 0.2,
    "shared_keys": 0.25,
    "keyless": 0.1,
    "short_ledger": 0.1,
    "zombies": 0.15,
    "imports": 0.2,
    "raises": 0.5,
}

_DRAWN_LAST = {
    **{"uuids_differ": 0.15, "replaced": 0.05, "lodger": 0.4, "more_foreign": 0.12, "moves": 0.08, "codecs": 0.08},
    **{"avro": 0.08, "orc": 0.15, "embedded": 0.3, "unknowing": 0.15},
}
FAR = 0.12
"""Share of worlds in S3 or in HDFS, of those in memory; with as many more whose data path is ``PERCENT``."""


def draw(rng: random.Random) -> Shape:
    found = _drawn(rng)
    if found.store == "memory" and found.theme != "names":
        far = random.Random(f"far {rng.getstate()[1][0]}")
        dice = far.random()
        if dice < FAR:
            store = far.choice(["s3", "hdfs"])
            others = [how for how in SPELLINGS[store] if how not in IS_PLACE]
            aliases = tuple(far.sample(others, 2)) if found.catalog == "filesystem" else ()
            return replace(found, store=store, spelled=far.choice(SPELLINGS[store]), aliases=aliases)
        return replace(found, spelled=PERCENT if dice < FAR + 0.03 else "plain")
    return found


def _drawn(rng: random.Random) -> Shape:
    more: dict[str, Any] = {name: rng.random() < share for name, share in _ODDITIES.items()}
    catalog = rng.choice(["pointer", "filesystem"])
    store = "disk" if rng.random() < 0.12 else "memory"
    shape = Shape(
        version=rng.choice([1, 2, 2, 3, 3, 3]),
        catalog=catalog,
        store=store,
        layout=rng.choice(["region", "region", *LAYOUTS]),
        granularity=rng.choice(["file", "partition"]),
        spelled=rng.choice(SPELLINGS["disk"]) if store == "disk" else "plain",
        aliases=tuple(rng.sample(DISK_ALIASES, 2)) if (store, catalog) == ("disk", "filesystem") else (),
        tables=2 if catalog == "pointer" and rng.random() < 0.25 else 1,
        **more,
    )
    theme = "all" if rng.random() < ALL_KINDS else rng.choice([name for name in list(THEMES)[1:] if name not in LATER_THEMES])
    later = random.Random(f"later themes {rng.getstate()[1][0]}")
    if later.random() < sum(LATER_THEMES.values()):
        theme = later.choices(list(LATER_THEMES), list(LATER_THEMES.values()))[0]
    taken = {"spelled": "plain", "aliases": ()} if "store" in THEMES[theme][0] else {}
    found = replace(shape, theme=theme, **THEMES[theme][0], **taken)
    # Drawn from the rest, so that the seeds of other worlds stay theirs.
    last = {name: random.Random(f"{name} {rng.getstate()[1][0]}") for name in _DRAWN_LAST}
    last["uuids_differ"] = random.Random(repr(found))
    drawn: dict[str, Any] = {name: last[name].random() < share for name, share in _DRAWN_LAST.items()}
    drawn["lodger"] &= found.tables > 1 and theme not in LATER_THEMES
    drawn["more_foreign"] |= found.more_foreign
    drawn["foreign"] = found.foreign or drawn["more_foreign"]
    drawn["orc"] &= drawn["foreign"] or found.imports
    drawn["embedded"] &= drawn["foreign"] and found.version == 1
    drawn["moves"] = found.catalog == "pointer" and (found.moves or drawn["moves"]) and not drawn["lodger"]
    return replace(found, **drawn, theme="names" if drawn["lodger"] else theme)


ALL_NAMES = frozenset(
    [
        *(f"v{v}" for v in (1, 2, 3)),
        *(f"catalog {c}" for c in ("pointer", "filesystem")),
        *(f"store {s}" for s in SPELLINGS),
        *(f"layout {x}" for x in LAYOUTS),
        *(f"granularity {g}" for g in ("file", "partition")),
        *(f"data path {store} {s}" for store, known in SPELLINGS.items() for s in known),
        *(f"warehouse {store} {s}" for store, s in ALIASES),
        *(f"theme {t}" for t in THEMES),
        "two tables",
        *(name.replace("_", " ") for name in (*_ODDITIES, *_DRAWN_LAST)),
    ]
)
