"""Reads a policy strictly: every key, action, option, schedule, name and glob must be valid for its reader.

Airflow's parser checks schedules, Airflow's rule for task ids checks step names, the matcher checks globs. A problem
is one line with its path in the document; the first one refuses the policy.
"""

from __future__ import annotations

import graphlib
import re
from collections.abc import Iterable

import msgspec

from iceberg_ops.config.actions import ACTIONS, MAINTENANCE_ACTIONS, check_options
from iceberg_ops.config.document import read_yaml
from iceberg_ops.config.document_problems import ShapeProblems, with_lines
from iceberg_ops.config.globs import glob_problem, may_match
from iceberg_ops.config.job_spec import CATALOG_TYPES
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.config.policy import CatalogPolicy, MaintenanceStep, Policy, Settings, all_layers, as_text
from iceberg_ops.config.schedules import schedule_problem
from iceberg_ops.errors import OptionError

_STEP_NAME = re.compile(r"[\w.-]{1,200}")
"""Airflow: letters, digits, ``_.-``, at most 250; a task's id is the name with a prefix."""
_BLANK = "is blank: leave it out, or give it a value"
_ACTIONS = ", ".join(MAINTENANCE_ACTIONS)


def load_policy(data: bytes | str, name: str) -> Policy:
    """Parse and lint a policy; error messages start with ``name`` (for example a path). Raises OptionError for the first
    problem."""
    policy, problems = _checked(data, name)
    if policy is None:
        raise OptionError(problems[0] + (f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""))
    return policy


def problems_in(data: bytes | str, name: str) -> list[str]:
    """Every problem of a policy document, as ``name:line: path: rule``; text that is not YAML has one. Empty if it is valid."""
    return _checked(data, name)[1]


def _checked(data: bytes | str, name: str) -> tuple[Policy | None, list[str]]:
    """The policy, None if it has a problem; and every problem."""
    try:
        content = read_yaml(data, name)
    except OptionError as e:
        return None, [str(e)]
    shape = ShapeProblems()
    right = shape.right_parts(content, Policy)
    policy = None if right is msgspec.UNSET else msgspec.convert(right, type=Policy)
    problems = shape.problems + ([] if policy is None else lint(policy))
    if not problems:
        return policy, []
    return None, [f"{name}:{line}: {problem}" for line, problem in with_lines(data, problems)]


def lint(policy: Policy) -> list[str]:
    """Every problem of a parsed policy, each with its path; empty if it is valid."""
    problems = [problem for path, settings in all_layers(policy) for problem in _lint_settings(path, settings)]
    problems += _lint_names(policy)
    try:
        step_order(policy)
    except OptionError as e:
        problems.append(str(e))
    return problems


def step_order(policy: Policy) -> list[str]:
    """Labels of all steps, in an order that agrees with every ``maintenance`` list. Raises OptionError if two lists disagree."""
    graph: dict[str, list[str]] = {}
    for _, layer in all_layers(policy):
        labels = [step.label for step in layer.maintenance or []]
        for i, label in enumerate(labels):
            graph.setdefault(label, []).extend(labels[max(0, i - 1) : i])
    try:
        return list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as e:
        raise OptionError(f"maintenance lists disagree on the order of {' and '.join(e.args[1][:-1])}") from None


def _lint_names(policy: Policy) -> Iterable[str]:
    """Names of catalogs, namespaces and tables: a name that matches no table is a mistake."""
    known = ", ".join(policy.catalogs) or "it has none"
    if not policy.catalogs and any(layer.maintenance for _, layer in all_layers(policy)):
        yield "catalogs: the policy names no catalog, so its maintenance applies to no table: name the catalogs that it is for"
    for name in policy.catalogs:
        if not name or "." in name:
            yield f"catalogs.{name}: a catalog's name is not empty and has no dot: it is the first part of its tables' names"
    for name in policy.namespaces:
        catalog, *namespace = name.split(".")
        if catalog not in policy.catalogs:
            yield f"namespaces.{name}: must begin with a catalog of this policy ({known})"
        elif not namespace or not all(namespace) or any(c in name for c in "*?["):
            yield f"namespaces.{name}: must be catalog.namespace in full; globs are for tables"
    for i, entry in enumerate(policy.tables):
        if problem := glob_problem(entry.match):
            yield f"tables[{i}].match: {entry.match!r}: {problem}"
        elif not may_match(entry.match):
            yield f"tables[{i}].match: {entry.match!r} must be catalog.namespace.name, or a glob over that"
        elif policy.catalogs and not any(may_match(entry.match, name) for name in policy.catalogs):
            yield f"tables[{i}].match: {entry.match!r} matches no catalog of this policy ({known})"


def _lint_settings(path: str, settings: Settings) -> Iterable[str]:
    if settings.owner is not None and not settings.owner.strip():
        yield f"{path}.owner: {_BLANK}"
    if "\0" in (settings.owner or ""):
        yield f"{path}.owner: must have no NUL character, which Airflow's database cannot store"
    if isinstance(settings, CatalogPolicy):
        if settings.type.strip() and settings.type not in CATALOG_TYPES:
            near = did_you_mean(settings.type, CATALOG_TYPES)
            yield f"{path}.type: unknown type {settings.type!r}{near}: must be one of {', '.join(CATALOG_TYPES)}"
        given = {"type": settings.type, **{f"properties.{name}": value for name, value in settings.properties.items()}}
        yield from (f"{path}.{name}: {_BLANK}" for name, value in given.items() if not value.strip())
    if settings.schedule is not None and (problem := schedule_problem(settings.schedule)):
        yield f"{path}.schedule: {problem}"
    for action, options in settings.options.items():
        if action not in MAINTENANCE_ACTIONS:
            near = did_you_mean(action, MAINTENANCE_ACTIONS)
            yield f"{path}.options: unknown action {action!r}{near}: the maintenance actions are {_ACTIONS}"
        else:
            known = sorted(ACTIONS[action].option_names)
            unknown = sorted(set(options) - set(known))
            for name in unknown:
                near = did_you_mean(name, known)
                yield f"{path}.options.{action}: unknown option {name}{near}: the options are {', '.join(known)}"
            blank = sorted(name for name, value in options.items() if not as_text(value).strip())
            yield from (f"{path}.options.{action}.{name}: {_BLANK}" for name in blank)
    labels: set[str] = set()
    for i, step in enumerate(settings.maintenance or ()):
        yield from _lint_step(f"{path}.maintenance[{i}]", step)
        if step.label in labels:
            yield f"{path}.maintenance[{i}]: two steps are called {step.label!r}: give one a name"
        labels.add(step.label)


def _lint_step(path: str, step: MaintenanceStep) -> Iterable[str]:
    if step.action not in MAINTENANCE_ACTIONS:
        near = did_you_mean(step.action, MAINTENANCE_ACTIONS)
        yield f"{path}.action: unknown action {step.action!r}{near}: the maintenance actions are {_ACTIONS}"
        return
    if step.name is not None and not _STEP_NAME.fullmatch(step.name):
        yield f"{path}.name: {step.name!r} must be 1 to 200 letters, digits, underscores, dots and dashes: task ids carry it"
    if step.schedule is not None and (problem := schedule_problem(step.schedule)):
        yield f"{path}.schedule: {problem}"
    for name in sorted(name for name, value in step.options.items() if not as_text(value).strip()):
        yield f"{path}.options.{name}: {_BLANK}"
    if step.where is not None and "where" not in ACTIONS[step.action].takes:
        yield f"{path}.where: {step.action} takes no where"
    elif step.where is not None and not step.where.strip():
        yield f"{path}.where: is empty: leave it out for every file"
    if not step.branch.strip():
        yield f"{path}.branch: {_BLANK}"
    elif step.branch != "main" and "branch" not in ACTIONS[step.action].takes:
        yield f"{path}.branch: {step.action} works on the whole table and takes no branch"
    try:
        check_options(step.action, {name: as_text(value) for name, value in step.options.items()}, now_ms=2**41)
    except OptionError as e:
        yield f"{path}.options: {e}"
