"""Maintenance policies: which actions run on which tables, when, and with which options.

A YAML document that people keep in git::

    version: 1
    defaults:
      schedule: "@daily"
      maintenance:
        - action: rewrite_data_files
          options: {target-file-size-bytes: 134217728}
        - action: expire_snapshots
    catalogs:
      prod:
        type: sql
        properties: {uri: "sqlite:///catalog.db", warehouse: file:/wh}
        owner: data-platform
    namespaces:
      prod.web: {schedule: "@hourly"}
    tables:
      - match: prod.nyc.*
        options: {rewrite_data_files: {min-input-files: 3}}
      - match: prod.nyc.flights
        enabled: false

A policy applies only to the tables of the catalogs that it names. Settings apply in order: defaults, the table's catalog, its
namespaces (outer first), then every entry of ``tables`` whose glob matches, in the order written, an entry without wildcards last.
Each field of a later layer replaces the earlier one separately; ``options`` merge key by key, and every value records the layer
that set it (provenance), which ``policy explain`` shows. ``maintenance`` is replaced as a whole: its order is part of its meaning.

``iceberg_ops.config.policy_lint`` reads a policy and checks its rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from iceberg_ops.config.document import Document
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.lanes import Lane
from iceberg_ops.errors import OptionError

Scalar = str | int | float | bool


class MaintenanceStep(Document, frozen=True, kw_only=True):
    """One action of the ordered list. ``name`` distinguishes two steps of one action; ``schedule`` None: the policy's."""

    action: str
    name: str | None = None
    options: dict[str, Scalar] = {}
    where: str | None = None
    branch: str = "main"
    schedule: str | None = None
    lane: Lane = "auto"
    enabled: bool = True

    @property
    def label(self) -> str:
        return self.name or self.action


class Settings(Document, frozen=True, kw_only=True):
    """The settings of any layer; None: not set here. ``options`` map an action name to options for its steps."""

    enabled: bool | None = None
    schedule: str | None = None
    owner: str | None = None
    lane: Lane | None = None
    maintenance: list[MaintenanceStep] | None = None
    options: dict[str, dict[str, Scalar]] = {}


class CatalogPolicy(Settings, frozen=True, kw_only=True):
    """A catalog and the settings of all its tables."""

    type: str
    properties: dict[str, str] = {}


class TablePolicy(Settings, frozen=True, kw_only=True):
    """Settings of the tables whose full name (catalog.namespace.name) matches the glob ``match``."""

    match: str


class Policy(Document, frozen=True, kw_only=True):
    """The whole document."""

    version: Literal[1]
    defaults: Settings = Settings()
    catalogs: dict[str, CatalogPolicy] = {}
    namespaces: dict[str, Settings] = {}
    tables: list[TablePolicy] = []

    def catalog_config(self, name: str) -> CatalogConfig:
        """The catalog in the form of a job spec. Raises OptionError."""
        if name not in self.catalogs:
            known = ", ".join(self.catalogs) or "none"
            raise OptionError(f"the policy has no catalog {name!r}, so nothing in it applies there: its catalogs are {known}")
        catalog = self.catalogs[name]
        return CatalogConfig(name=name, type=catalog.type, properties=dict(catalog.properties))


@dataclass(frozen=True, slots=True)
class SourcedValue:
    """A value and the layer it came from (``defaults``, ``catalogs.prod``, ``tables[0] (prod.nyc.*)``)."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveStep:
    """One step as it will run: options as text, each with the layer that set it."""

    action: str
    label: str
    options: Mapping[str, SourcedValue]
    where: str | None
    branch: str
    schedule: str | None
    lane: Lane
    enabled: bool
    source: str

    def option_texts(self) -> dict[str, str]:
        """Options in the form of a job spec."""
        return {name: option.value for name, option in self.options.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """The policy's settings for one table. ``settings`` hold every field that some layer set."""

    table: str
    settings: Mapping[str, SourcedValue] = field(default_factory=dict)
    steps: tuple[EffectiveStep, ...] = ()

    @property
    def enabled(self) -> bool:
        setting = self.settings.get("enabled")
        return setting is None or bool(setting.value)

    def setting(self, name: str, default: Any = None) -> Any:
        """A field's value, or ``default`` if no layer sets it."""
        sourced = self.settings.get(name)
        return default if sourced is None else sourced.value


def effective(policy: Policy, table: str) -> EffectivePolicy:
    """The policy of one table (catalog.namespace.name), every value with its source."""
    settings: dict[str, SourcedValue] = {}
    options: dict[str, dict[str, SourcedValue]] = {}
    for source, layer in matching_layers(policy, table):
        for name in Settings.__struct_fields__:
            value = getattr(layer, name)
            if name != "options" and value is not None:
                settings[name] = SourcedValue(value, source)
        for action, added in layer.options.items():
            options.setdefault(action, {}).update({key: SourcedValue(as_text(value), source) for key, value in added.items()})
    maintenance = settings.pop("maintenance", SourcedValue([], ""))
    schedule, lane = settings.get("schedule"), settings.get("lane")
    steps = tuple(
        EffectiveStep(
            action=step.action,
            label=step.label,
            options={
                **{key: SourcedValue(as_text(value), maintenance.source) for key, value in step.options.items()},
                **_later(
                    options.get(step.action, {}), maintenance.source, [source for source, _ in matching_layers(policy, table)], step
                ),
            },
            where=step.where,
            branch=step.branch,
            schedule=step.schedule or (schedule.value if schedule else None),
            lane=step.lane if step.lane != "auto" or lane is None else lane.value,
            enabled=step.enabled,
            source=maintenance.source,
        )
        for step in maintenance.value
    )
    return EffectivePolicy(table=table, settings=settings, steps=steps)


def all_layers(policy: Policy) -> Iterable[tuple[str, Settings]]:
    """Every layer with its path in the document."""
    yield "defaults", policy.defaults
    for name, catalog in policy.catalogs.items():
        yield f"catalogs.{name}", catalog
    for name, namespace in policy.namespaces.items():
        yield f"namespaces.{name}", namespace
    for i, entry in enumerate(policy.tables):
        yield f"tables[{i}]", entry


def matching_layers(policy: Policy, table: str) -> list[tuple[str, Settings]]:
    """The layers that apply to a table, weakest first, with their paths. None applies to a table of a catalog that the policy does
    not name: its defaults are only for the catalogs it names."""
    catalog, *namespace = table.split(".")[:-1] or [""]
    if catalog not in policy.catalogs:
        return []
    layers: list[tuple[str, Settings]] = [("defaults", policy.defaults), (f"catalogs.{catalog}", policy.catalogs[catalog])]
    for depth in range(1, len(namespace) + 1):
        name = ".".join([catalog, *namespace[:depth]])
        if name in policy.namespaces:
            layers.append((f"namespaces.{name}", policy.namespaces[name]))
    matching = [(i, entry) for i, entry in enumerate(policy.tables) if fnmatchcase(table, entry.match)]
    matching.sort(key=lambda pair: pair[1].match == table)
    layers.extend((f"tables[{i}] ({entry.match})", entry) for i, entry in matching)
    return layers


def as_text(value: Scalar) -> str:
    """An option's value in the form of a job spec."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _later(added: Mapping[str, SourcedValue], step_source: str, order: list[str], step: MaintenanceStep) -> dict[str, SourcedValue]:
    """Options of layers that override the step's own: all new names, and names set by a layer at or above the step's."""
    level = order.index(step_source)
    return {key: option for key, option in added.items() if key not in step.options or order.index(option.source) > level}
