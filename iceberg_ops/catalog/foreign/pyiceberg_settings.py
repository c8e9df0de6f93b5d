"""The catalogs of pyiceberg: ``.pyiceberg.yaml``, and variables ``PYICEBERG_CATALOG__NAME__KEY``, which override it.

pyiceberg takes the file from the folder PYICEBERG_HOME, else from the home folder, else from the working folder. Every value is
text. pyiceberg ignores the case of names; here a catalog keeps the spelling of the file, because a SQL catalog stores it in its
rows.

Source: pyiceberg 0.12, ``utils/config.py`` and ``catalog/__init__.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iceberg_ops.catalog.foreign.taken import ForeignCatalog, UnusableCatalog, taken, unusable
from iceberg_ops.config.document import read_yaml_texts
from iceberg_ops.errors import OptionError

FILE = ".pyiceberg.yaml"
_PREFIX = "pyiceberg_"
_CLASSES = {
    "pyiceberg.catalog.rest.RestCatalog": "rest",
    "pyiceberg.catalog.hive.HiveCatalog": "hive",
    "pyiceberg.catalog.glue.GlueCatalog": "glue",
    "pyiceberg.catalog.sql.SqlCatalog": "sql",
}
_TYPE_OF_URI = {"http": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
_FILE_IOS = ("pyiceberg.io.pyarrow.PyArrowFileIO", "pyiceberg.io.fsspec.FsspecFileIO")
_WITHOUT_MEANING = frozenset(
    {"echo", "pool_pre_ping", "hive.hive2-compatible", "lock-check-min-wait-time", "lock-check-max-wait-time", "lock-check-retries"}
)
"""About how pyiceberg works, not about what its catalog is."""
_RENAMED = {"s3.sse-kms-key-id": "s3.sse.key", "client.role-session-name": "client.assume-role.session-name"}
_ENCRYPTION = {"aes256": "s3", "aws:kms": "kms", "aws:kms:dsse": "dsse-kms"}
_OF_OAUTH2 = {"token_url": "oauth2-server-uri", "scope": "scope"}


def pyiceberg_catalogs(environment: Mapping[str, str], path: Path | None = None) -> tuple[list[Path], list[ForeignCatalog]]:
    """The file that is read, if there is one, and the catalogs. ``path``: read only this file. Raises OptionError for a file that
    is missing or cannot be read, and for variables that contradict it."""
    if path is not None and not path.is_file():
        raise OptionError(f"pyiceberg:{path}: there is no such file")
    file = path or _file(environment)
    content: Any = {} if file is None else read_yaml_texts(file.read_bytes(), str(file)) or {}
    where = "PYICEBERG_CATALOG__*" if file is None else str(file)
    catalogs = _lower(content, where).get("catalog", {})
    if not isinstance(catalogs, Mapping):
        raise OptionError(f"{where}: catalog must be a mapping of names to settings")
    spelled = {name.lower(): name for name in _catalogs_as_written(content)}
    files = [] if file is None else [file]
    return files, [
        _taken(spelled.get(name, name), where, settings) for name, settings in _with_variables(catalogs, environment).items()
    ]


def _file(environment: Mapping[str, str]) -> Path | None:
    home = environment.get("HOME") or str(Path.home())
    folders = [environment.get("PYICEBERG_HOME") or "", home, str(Path.cwd())]
    return next((path for folder in folders if folder and (path := Path(folder) / FILE).is_file()), None)


def _lower(value: Any, where: str) -> dict[str, Any]:
    """The mapping with its keys in lower case. Raises OptionError for keys that differ only in case."""
    if not isinstance(value, Mapping):
        raise OptionError(f"{where}: must be a mapping of keys to values")
    lowered: dict[str, Any] = {}
    for key, inner in value.items():
        if key.lower() in lowered:
            raise OptionError(f"{where}: key {key!r} is given twice, in another case: keep one of them")
        lowered[key.lower()] = _lower(inner, where) if isinstance(inner, Mapping) else inner
    return lowered


def _catalogs_as_written(content: Any) -> list[str]:
    catalogs: Any = next((inner for key, inner in content.items() if key.lower() == "catalog"), {}) if content else {}
    return list(catalogs) if isinstance(catalogs, Mapping) else []


def _with_variables(catalogs: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """The catalogs with the settings of the environment: lower case, with ``-`` for ``_`` and ``.`` for ``__``."""
    merged: dict[str, Any] = {name: dict(inner) if isinstance(inner, Mapping) else inner for name, inner in catalogs.items()}
    for variable, value in environment.items():
        if not (lower := variable.lower()).startswith(f"{_PREFIX}catalog__"):
            continue
        parts = [part.replace("__", ".").replace("_", "-") for part in lower.removeprefix(_PREFIX).split("__", maxsplit=2)]
        name, key = parts[1], parts[2] if len(parts) > 2 else None
        if key is None or not name or not isinstance(merged.setdefault(name, {}), dict):
            raise OptionError(f"{variable} must be PYICEBERG_CATALOG__NAME__KEY, and NAME a mapping in the file")
        merged[name][key] = value
    return merged


def _taken(name: str, where: str, settings: Any) -> ForeignCatalog:
    source = f"pyiceberg ({where})"
    if not isinstance(settings, Mapping):
        return unusable(name, source, "it must be a mapping of keys to values")
    notes: list[str] = []
    try:
        properties = _flat(settings, notes)
        kind = _kind(properties, notes)
        return taken(name, source, kind, _renamed(properties, notes), notes)
    except UnusableCatalog as e:
        return unusable(name, source, str(e))


def _flat(settings: Mapping[str, Any], notes: list[str]) -> dict[str, str]:
    """The settings that are texts; of the others only ``auth`` is used."""
    properties = {key: value for key, value in settings.items() if isinstance(value, str)}
    for key, value in settings.items():
        if key == "auth" and isinstance(value, Mapping):
            properties |= _authentication(value)
        elif not isinstance(value, str):
            notes.append(f"{key} has no effect here, because it is not text")
    return properties


def _authentication(auth: Mapping[str, Any]) -> dict[str, str]:
    """pyiceberg's ``auth``, a mapping with ``type`` and settings below the name of the type."""
    kind = auth.get("type")
    settings = auth.get(kind, {}) if isinstance(kind, str) else {}
    if not isinstance(settings, Mapping) or not all(isinstance(value, str) for value in settings.values()):
        raise UnusableCatalog("auth must have settings of its type that are texts")
    if kind == "noop":
        return {"rest.auth.type": "none"}
    if kind == "basic":
        return {"rest.auth.type": "basic", **{f"rest.auth.basic.{key}": settings.get(key, "") for key in ("username", "password")}}
    if kind == "oauth2":
        known = {mine: settings[theirs] for theirs, mine in _OF_OAUTH2.items() if settings.get(theirs)}
        return {"credential": f"{settings.get('client_id', '')}:{settings.get('client_secret', '')}", **known}
    raise UnusableCatalog(
        f"auth.type {kind if isinstance(kind, str) else '(no text)'!r} is not supported: noop, basic and oauth2 are"
    )


def _kind(properties: dict[str, str], notes: list[str]) -> str:
    """The type, from the scheme of the URI if no setting names it. Raises Unusable."""
    named, code = properties.pop("type", "").lower(), properties.pop("py-catalog-impl", "")
    if named:
        if code:
            notes.append("py-catalog-impl has no effect beside type")
        return named
    if code:
        if code not in _CLASSES:
            raise UnusableCatalog(f"py-catalog-impl {code!r} is not a class that is known here")
        return _CLASSES[code]
    uri = properties.get("uri", "")
    kind = next((kind for begun, kind in _TYPE_OF_URI.items() if uri.startswith(begun)), None)
    if kind is None:
        raise UnusableCatalog("neither type nor the scheme of its uri says what kind of catalog it is")
    return kind


def _renamed(properties: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    renamed: dict[str, str] = {}
    for key, value in properties.items():
        if key == "py-io-impl":
            if value not in _FILE_IOS:
                notes.append(f"{key} {value} has no effect here: files are read by the scheme of their location")
        elif key == "s3.force-virtual-addressing":
            renamed["s3.path-style-access"] = "false" if value.lower() in ("true", "1", "t", "y", "yes", "on") else "true"
        elif key == "s3.server-side-encryption":
            renamed["s3.sse.type"] = _ENCRYPTION.get(value.lower(), value)
        elif key not in _WITHOUT_MEANING:
            renamed[_RENAMED.get(key, key)] = value
    return renamed
