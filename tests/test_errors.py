"""The table of errors: every code has one row, one class and one mapping from the code back to that class."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from iceberg_ops import errors
from iceberg_ops.errors import ERROR_KINDS, IcebergOpsError, TerminalError, error_of_code, kind_of_code, next_step


def tree(root: type[IcebergOpsError] = IcebergOpsError) -> Iterator[type[IcebergOpsError]]:
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


WITH_A_CODE = [kind for kind in tree() if "code" in vars(kind)]


def test_every_class_with_a_code_has_one_row_and_every_row_a_code_of_its_own() -> None:
    assert sorted(kind.error.__name__ for kind in ERROR_KINDS if kind.error) == sorted(kind.__name__ for kind in WITH_A_CODE)
    assert len({kind.code for kind in ERROR_KINDS}) == len(ERROR_KINDS)


def test_a_class_comes_before_its_base() -> None:
    classes = [kind.error for kind in ERROR_KINDS if kind.error]
    for n, later in enumerate(classes):
        assert not [before for before in classes[:n] if issubclass(later, before)], later


@pytest.mark.parametrize("kind", list(tree()), ids=lambda kind: kind.__name__)
def test_an_error_that_crosses_a_process_keeps_its_code_message_and_retry(kind: type[IcebergOpsError]) -> None:
    back = error_of_code(kind.code, "one line")
    assert (back.code, str(back)) == (kind.code, "one line")
    assert issubclass(kind, type(back))


@pytest.mark.parametrize("code", ["NEWER", "INTERRUPTED", "USAGE", ""])
def test_a_code_without_a_class_is_terminal_and_named(code: str) -> None:
    back = error_of_code(code, "one line")
    assert (type(back), str(back)) == (TerminalError, f"{code}: one line".lstrip())


@pytest.mark.parametrize("kind", ERROR_KINDS, ids=lambda kind: kind.code)
def test_every_code_has_a_next_step(kind: errors.ErrorKind) -> None:
    assert kind_of_code(kind.code) is kind
    assert next_step(kind.code) == kind.next_step != ""
    assert next_step("NEWER") == next_step("TERMINAL")
