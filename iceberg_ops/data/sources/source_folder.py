"""Decides which files below a source path are data, and whether they are complete.

The caller lists the folder (this process, or Spark through Hadoop) and passes names; the rules are the same. A path without a data
file is an error (Spark writes at least one even for an empty result). A ``_temporary`` folder means that a writer is running or
died. A missing ``_SUCCESS`` is an error only if the job asks for it, because many writers create none. Files and folders whose
names begin with ``_`` or ``.`` are not data, as in Spark, unless they are values (``_k=1``). A table's own files are not a source
for it, whatever links lead to them. Spark silently leaves out data files in plain folders below a path; such a source is an error
on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iceberg_ops.errors import DataError
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.locations import folder_identity, identity_under, is_within, links_under
from iceberg_ops.table.own_folders import folders_of, former_folders
from iceberg_ops.table.table import Table

SUCCESS, TEMPORARY = "_SUCCESS", "_temporary"
PATTERN = frozenset("*?[]{}\\")
"""Characters that make Spark take a path for a pattern."""

RelativeName = tuple[str, ...]
"""A file's name below a folder, in parts."""


class TableFolders:
    """The folders of ``table``'s files: its current folders, and its former ones, because its files stay there. Symbolic links of
    this machine are followed. A path from a user is compared in two forms: as it is written, because it is opened in this form, and
    as it would be recorded (``location-mapping`` applies to recorded locations)."""

    def __init__(self, table: Table) -> None:
        plain = load_file_io()
        stores = [table.io] if table.io.properties == plain.properties else [plain, table.io]
        self._identities, self._links = [identity_under(io) for io in stores], [links_under(io) for io in stores]
        folders = (*folders_of(table), *former_folders(table))
        self._folders = {folder_identity(self._identities[-1], folder): folder for folder in folders}

    def check_path(self, path: str) -> None:
        """Raise DataError for a source path inside one of the folders, or around one."""
        for searched in {folder_identity(identity, path) for identity in self._identities}:
            for place, folder in self._folders.items():
                if is_within(searched, place):
                    raise _of_the_table(f"source {path} lies inside", folder)
                if is_within(place, searched):
                    raise _of_the_table(f"source {path} holds", folder)

    def check_file(self, path: str, location: str) -> None:
        """Raise DataError for a file below source ``path`` that is a link to one of the table's files."""
        names = {identity(location) for identity in self._identities}
        for name in names.union(*(links(location) for links in self._links)):
            for place, folder in self._folders.items():
                if is_within(name, place):
                    raise _of_the_table(f"source {path} leads by {location} into", folder)


def _of_the_table(what: str, folder: str) -> DataError:
    return DataError(
        f"{what} the table's own folder {folder}: its files hold deleted rows too "
        "(read the table instead: source format table, or in a query the view target)"
    )


def data_files_among(path: str, names: Iterable[RelativeName], *, require_success_file: bool) -> list[RelativeName]:
    """The data files among all files and ``_temporary`` folders ``found`` below source ``path``. Raises DataError for an incomplete
    source."""
    data, succeeded = [], False
    for name in names:
        if TEMPORARY in name:
            raise DataError(f"source {path} is half written: it holds {'/'.join(name)}; its writer is at work, or died")
        succeeded = succeeded or name == (SUCCESS,)
        if not is_hidden(name):
            data.append(name)
    if require_success_file and not succeeded:
        raise DataError(f"source {path} is half written: it has no {SUCCESS} (require-success-file = true)")
    return data


def read_twice(file: str) -> str:
    """The message for a file of a source that would be read twice."""
    return f"source {file} would be read twice, because two of the paths, or a link, lead to it: name it by one"


def is_hidden(name: RelativeName) -> bool:
    """Whether a file or folder with that name is not data, nor anything below it."""
    return any(part.startswith(("_", ".")) and "=" not in part for part in name)


def check_all_are_read(path: str, data: Sequence[RelativeName]) -> None:
    """Raise DataError for a data file below ``path`` that Spark would leave out: one in a plain folder or, if other folders are
    values (``k=1``), one outside such a folder."""
    has_values = any(_is_in_values(name) for name in data)
    left_out = (n for n in data if (not _is_in_values(n) if has_values else len(n) > 1) or any(part.startswith(".") for part in n))
    if (name := next(left_out, None)) is not None:
        raise DataError(
            f"source {path}: Spark would leave out {'/'.join(name)}: below a path it reads only folders that are values (k=1), and "
            "then no file beside them. Name each folder as a path of the source, or use reader option recursiveFileLookup = true"
        )


def _is_in_values(name: RelativeName) -> bool:
    return any("=" in part for part in name[:-1])


def check_holds_data(path: str, data_files: int) -> None:
    """Raise DataError for a source without a data file."""
    if not data_files:
        raise DataError(f"source {path} is empty: it holds no data file")
