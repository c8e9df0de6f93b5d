"""The rules for text from people, the same in job specs, policies, on the command line and in operators.

A given field must have a value: blank text comes from an empty shell variable or template, and is an error. Text is Unicode: bytes
in another encoding (Python reads them as lone surrogates) cannot be written to metadata or a report.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.errors import OptionError

if TYPE_CHECKING:
    from iceberg_ops.config.document import Document


def check_text(name: str, text: str) -> None:
    """Raise OptionError, which quotes no value, for text that is blank or not valid Unicode."""
    if not text.strip():
        raise OptionError(f"{name} is blank: leave it out, or give it a value")
    check_unicode(name, text)


def check_unicode(name: str, text: str) -> None:
    """Raise OptionError for text that cannot be written as UTF-8."""
    if not is_unicode(text):
        raise OptionError(f"{name} is not UTF-8 text: write it in UTF-8")


def check_place(name: str, text: str) -> None:
    """Raise OptionError for a path or location that no file system can have, and for one in a home folder, which only shells
    resolve: it would be a folder named ``~`` in the working folder."""
    if "\0" in text:
        raise OptionError(f"{name} has a NUL character, which no path can have")
    if text == "~" or text.startswith("~/"):
        raise OptionError(f"{name} begins with ~, which only a shell replaces: write the whole path")


def check_given(document: Document, *, may_be_blank: frozenset[str] = frozenset()) -> None:
    """Check every given text in a document, in its lists and in its mappings; the values of the fields ``may_be_blank``
    may be blank. Raises OptionError."""
    fields = zip(document.__struct_fields__, document.__struct_encode_fields__, strict=True)
    defaults = type(document).__struct_defaults__
    first_default = len(document.__struct_fields__) - len(defaults)
    for i, (field, name) in enumerate(fields):
        value = getattr(document, field)
        if i >= first_default and value == defaults[i - first_default]:
            continue
        if isinstance(value, dict):
            for key in value:
                check_text(f"a name in {name}", key)
        for place, text in _texts(name, value):
            (check_unicode if field in may_be_blank else check_text)(place, text)


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Texts with their paths; for a mapping its values."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(f"an entry of {name}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(f"{name}.{key}", item)
