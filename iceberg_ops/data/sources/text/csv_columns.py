"""The columns of a CSV source: their names in the first records of its files, and their positions in each file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from iceberg_ops.data.sources.text.csv_records import Fields
from iceberg_ops.data.sources.text.csv_rows import CsvShape, column_type, wider_guess
from iceberg_ops.data.sources.text.text_options import CsvOptions
from iceberg_ops.errors import DataError, SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import IcebergType

_NO_HEADER = "(a file without a header line needs the reader option header = false)"


def names_by_file(
    heads: Mapping[str, Fields], options: CsvOptions, schema: Schema, source: str, folders: Collection[str] = ()
) -> dict[str, list[str]]:
    """The names of each file's columns, from its first record. ``schema``: the table's. ``source``: its paths, for errors.
    ``folders``: columns whose values are in folder names.

    Raises DataError for a header that does not name each column once, or that names none of the table's columns if no option sets
    ``header``; SchemaError for columns by position whose number differs from the table's."""
    if not heads:  # no record shows which columns there are
        return {"": [f.name for f in schema.fields if not f.type.is_nested]}
    if not options.header:
        return dict.fromkeys(heads, _by_position(next(iter(heads.values())), folders, source, schema))
    names_of_files = {file: _header_names(fields, file) for file, fields in heads.items()}
    known = {f.name.lower() for f in schema.fields}
    for file, names in names_of_files.items():
        if not options.header_is_given and known.isdisjoint(name.lower() for name in names):
            raise DataError(
                f"source {file}: its first line names no column of the table: {', '.join(names)}; the table's are "
                f"{', '.join(f.name for f in schema.fields)} {_NO_HEADER}"
            )
    return names_of_files


def united_names(names: Iterable[Sequence[str]], folders: Collection[str] = ()) -> list[str]:
    """Each column once, in its first spelling, without those in folder names."""
    united: dict[str, str] = {}
    for name in (name for have in names for name in have):
        united.setdefault(name.lower(), name)
    left_out = {name.lower() for name in folders}
    return [name for lower, name in united.items() if lower not in left_out]


def united_guesses(guesses_of_files: Iterable[tuple[Sequence[str], Sequence[IcebergType | None]]]) -> dict[str, IcebergType]:
    """The types for reading columns, by name in lower case, from the names and guesses of each part."""
    guesses: dict[str, IcebergType | None] = {}
    for names, types in guesses_of_files:
        for name, guess in zip(names, types, strict=True):
            guesses[name.lower()] = wider_guess(guesses.get(name.lower()), guess)
    return {name: column_type(guess) for name, guess in guesses.items()}


def csv_shape(names: Sequence[str], types: Sequence[IcebergType], have: Sequence[str]) -> CsvShape:
    """How to read a file with the columns ``have`` as the columns ``names``."""
    places = {name.lower(): i for i, name in enumerate(have)}
    return CsvShape(tuple(names), tuple(types), tuple(places.get(name.lower()) for name in names), len(have))


def _header_names(fields: Fields, source: str) -> list[str]:
    names = [name or "" for name in fields]
    seen: set[str] = set()
    for i, name in enumerate(names):
        if not name.strip():
            raise DataError(f"source {source}: column {i + 1} of the header has no name {_NO_HEADER}")
        if name.lower() in seen:
            raise DataError(f"source {source} has column {name!r} twice in its header: rename one of them {_NO_HEADER}")
        seen.add(name.lower())
    return names


def _by_position(fields: Fields, folders: Collection[str], source: str, schema: Schema) -> list[str]:
    """The table's columns, with or without those in folder names."""
    in_folders, names = {name.lower() for name in folders}, [f.name for f in schema.fields]
    beside = [name for name in names if name.lower() not in in_folders]
    if len(fields) == len(names):
        return names
    if len(fields) != len(beside):
        raise SchemaError(
            f"source {source} has {len(fields)} columns, the table {len(beside)}"
            f"{' beside those in names of folders' if beside != names else ''}: CSV with header = false is taken by position"
        )
    return beside
