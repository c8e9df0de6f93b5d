"""Maintenance policies: what should be done to which tables, when, and with which options.

A YAML document people keep in git::

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

Settings apply in order: defaults, the table's catalog, its namespaces (outer first), then every entry of ``tables`` whose glob
matches, in the order written, an entry without wildcards last. Each field of a later layer replaces the earlier one by itself;
``options`` merge key by key, and every value remembers the layer that set it (provenance), which ``policy explain`` shows.
``maintenance`` is replaced as a whole: its order is part of its meaning.

Strict: an unknown key, action or option is an OptionError that names the document, the path and the known names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from iceberg_ops.config.document import Document, from_yaml
from iceberg_ops.config.job_spec import MAINTENANCE_ACTIONS, TAKE_BRANCH, TAKE_WHERE, CatalogConfig
from iceberg_ops.config.options import check_options, known_options
from iceberg_ops.errors import OptionError

_CRON = re.compile(r"(@(once|hourly|daily|weekly|monthly|yearly|annually|midnight|continuous))|(\S+\s+){4}\S+")
Lane = Literal["auto", "local", "spark"]
Scalar = str | int | float | bool


class MaintenanceStep(Document, frozen=True, kw_only=True):
    """One action of the ordered list. ``name`` tells two steps of one action apart; ``schedule`` None: the policy's."""

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
    """What any layer may set; None: not set here. ``options`` go from action name to options added to its steps."""

    enabled: bool | None = None
    schedule: str | None = None
    owner: str | None = None
    lane: Lane | None = None
    approval: bool | None = None
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
        """The catalog as a job spec wants it. Raises OptionError."""
        if name not in self.catalogs:
            raise OptionError(f"policy has no catalog {name!r}: it has {', '.join(self.catalogs) or 'none'}")
        found = self.catalogs[name]
        return CatalogConfig(name=name, type=found.type, properties=dict(found.properties))


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value and the layer it came from (``defaults``, ``catalogs.prod``, ``tables[0] (prod.nyc.*)``)."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveStep:
    """One step as it will run: options as text with the layer that set each."""

    action: str
    label: str
    options: Mapping[str, Sourced]
    where: str | None
    branch: str
    schedule: str | None
    lane: Lane
    enabled: bool
    source: str

    def option_texts(self) -> dict[str, str]:
        """Options as a job spec carries them."""
        return {name: found.value for name, found in self.options.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectivePolicy:
    """What the policy says about one table. ``settings`` hold every field that some layer set."""

    table: str
    settings: Mapping[str, Sourced] = field(default_factory=dict)
    steps: tuple[EffectiveStep, ...] = ()

    @property
    def enabled(self) -> bool:
        found = self.settings.get("enabled")
        return found is None or bool(found.value)

    def setting(self, name: str, default: Any = None) -> Any:
        """A field's value, or ``default`` where no layer sets it."""
        found = self.settings.get(name)
        return default if found is None else found.value


def load_policy(data: bytes | str, name: str) -> Policy:
    """Parse and lint a policy; ``name`` (a path, say) leads error messages. Raises OptionError for the first problem."""
    policy = from_yaml(data, Policy, name)
    problems = lint(policy)
    if problems:
        raise OptionError(f"{name}: {problems[0]}" + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""))
    return policy


def lint(policy: Policy) -> list[str]:
    """Every problem of a parsed policy, each with its path; empty where it is right."""
    problems: list[str] = []
    for path, settings in _layers(policy):
        problems.extend(_lint_settings(path, settings))
    for name in policy.namespaces:
        if name.partition(".")[0] not in policy.catalogs:
            problems.append(
                f"namespaces.{name}: must begin with a catalog of this policy ({', '.join(policy.catalogs) or 'it has none'})"
            )
    for i, entry in enumerate(policy.tables):
        if entry.match.count(".") < 2 and "*" not in entry.match:
            problems.append(f"tables[{i}].match: {entry.match!r} must be catalog.namespace.name, or a glob over that")
        elif policy.catalogs and not any(_may_match_catalog(entry.match, name) for name in policy.catalogs):
            problems.append(f"tables[{i}].match: {entry.match!r} matches no catalog of this policy ({', '.join(policy.catalogs)})")
    return problems


def effective(policy: Policy, table: str) -> EffectivePolicy:
    """The policy of one table (catalog.namespace.name), every value with its source."""
    settings: dict[str, Sourced] = {}
    options: dict[str, dict[str, Sourced]] = {}
    for source, layer in layers_of(policy, table):
        for name in Settings.__struct_fields__:
            value = getattr(layer, name)
            if name != "options" and value is not None:
                settings[name] = Sourced(value, source)
        for action, found in layer.options.items():
            options.setdefault(action, {}).update({key: Sourced(as_text(value), source) for key, value in found.items()})
    maintenance = settings.pop("maintenance", Sourced([], ""))
    schedule, lane = settings.get("schedule"), settings.get("lane")
    steps = tuple(
        EffectiveStep(
            action=step.action,
            label=step.label,
            options={
                **{key: Sourced(as_text(value), maintenance.source) for key, value in step.options.items()},
                **_later(
                    options.get(step.action, {}), maintenance.source, [source for source, _ in layers_of(policy, table)], step
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


def layers_of(policy: Policy, table: str) -> list[tuple[str, Settings]]:
    """The layers that apply to a table, weakest first, with their paths."""
    catalog, *namespace = table.split(".")[:-1]
    found: list[tuple[str, Settings]] = [("defaults", policy.defaults)]
    if catalog in policy.catalogs:
        found.append((f"catalogs.{catalog}", policy.catalogs[catalog]))
    for depth in range(1, len(namespace) + 1):
        name = ".".join([catalog, *namespace[:depth]])
        if name in policy.namespaces:
            found.append((f"namespaces.{name}", policy.namespaces[name]))
    matching = [(i, entry) for i, entry in enumerate(policy.tables) if fnmatchcase(table, entry.match)]
    matching.sort(key=lambda pair: pair[1].match == table)
    found.extend((f"tables[{i}] ({entry.match})", entry) for i, entry in matching)
    return found


def as_text(value: Scalar) -> str:
    """An option's value as job specs carry it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _later(added: Mapping[str, Sourced], step_source: str, order: list[str], step: MaintenanceStep) -> dict[str, Sourced]:
    """Options of layers that win over the step's own: all new names, and names set by a layer at or above the step's."""
    level = order.index(step_source)
    return {key: found for key, found in added.items() if key not in step.options or order.index(found.source) > level}


def _layers(policy: Policy) -> Iterable[tuple[str, Settings]]:
    yield "defaults", policy.defaults
    for name, catalog in policy.catalogs.items():
        yield f"catalogs.{name}", catalog
    for name, namespace in policy.namespaces.items():
        yield f"namespaces.{name}", namespace
    for i, entry in enumerate(policy.tables):
        yield f"tables[{i}]", entry


def _lint_settings(path: str, settings: Settings) -> Iterable[str]:
    if settings.schedule is not None and not _CRON.fullmatch(settings.schedule):
        yield f"{path}.schedule: {settings.schedule!r} must be a cron expression of five fields or a preset such as @daily"
    for action, options in settings.options.items():
        if action not in MAINTENANCE_ACTIONS:
            yield f"{path}.options: unknown action {action!r}: the maintenance actions are {', '.join(MAINTENANCE_ACTIONS)}"
        else:
            unknown = sorted(set(options) - set(known_options(action)))
            yield from (
                f"{path}.options.{action}: unknown option {name}: the options are {', '.join(sorted(known_options(action)))}"
                for name in unknown
            )
    labels: set[str] = set()
    for i, step in enumerate(settings.maintenance or ()):
        yield from _lint_step(f"{path}.maintenance[{i}]", step)
        if step.label in labels:
            yield f"{path}.maintenance[{i}]: two steps are called {step.label!r}: give one a name"
        labels.add(step.label)


def _lint_step(path: str, step: MaintenanceStep) -> Iterable[str]:
    if step.action not in MAINTENANCE_ACTIONS:
        yield f"{path}.action: unknown action {step.action!r}: the maintenance actions are {', '.join(MAINTENANCE_ACTIONS)}"
        return
    if step.schedule is not None and not _CRON.fullmatch(step.schedule):
        yield f"{path}.schedule: {step.schedule!r} must be a cron expression of five fields or a preset such as @daily"
    if step.where is not None and step.action not in TAKE_WHERE:
        yield f"{path}.where: {step.action} takes no where"
    if step.branch != "main" and step.action not in TAKE_BRANCH:
        yield f"{path}.branch: {step.action} works on the whole table and takes no branch"
    try:
        check_options(step.action, {name: as_text(value) for name, value in step.options.items()}, {}, now_ms=2**41)
    except OptionError as e:
        yield f"{path}.options: {e}"


def _may_match_catalog(pattern: str, catalog: str) -> bool:
    head = pattern.partition(".")[0]
    return fnmatchcase(catalog, head) or "*" in head
