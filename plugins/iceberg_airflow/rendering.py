"""Template fields that keep their text, also in a DAG with ``render_template_as_native_obj``.

Airflow's native rendering reads every rendered text as a Python literal: the branch ``2024`` becomes a number, the table
``2024.10`` the table ``2024.1``, an option ``1,2`` a tuple. Here a template of one expression gives that expression's value (a
mapping stays a mapping, None stays None), any other template gives text, and no text is converted.

Secrets in a rendered field, for example the password of a source's catalog, are masked during rendering: Airflow shows rendered
fields to everyone who may see the task, before the operator runs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import jinja2
from airflow.sdk import BaseOperator
from jinja2.nativetypes import NativeEnvironment

from iceberg_airflow.error_line import leave_frames_out
from iceberg_airflow.masking import mask
from iceberg_ops.config.secrets import secrets_in
from iceberg_ops.errors import OptionError

_TRUE = ("true", "t", "yes", "y", "on", "1")
_FALSE = ("false", "f", "no", "n", "off", "0")


class ExactRendering(BaseOperator):
    """Base of operators whose text fields must stay as written."""

    def render_template(
        self, content: Any, context: Any, jinja_env: jinja2.Environment | None = None, seen_oids: set[int] | None = None
    ) -> Any:
        """A rendered field; in a collection every text is rendered. Its secrets are masked after this."""
        leave_frames_out()
        rendered = self._rendered(content, context, jinja_env, seen_oids)
        mask(secrets_in(rendered))
        return rendered

    def _rendered(self, content: Any, context: Any, jinja_env: jinja2.Environment | None, seen_oids: set[int] | None) -> Any:
        if seen_oids is not None and id(content) in seen_oids:
            return content  # from XCom: data, not a template
        environment = jinja_env or self.get_template_env()
        exact = isinstance(content, str) and isinstance(environment, NativeEnvironment)
        if not exact or content.endswith(tuple(self.template_ext)):
            return super().render_template(content, context, environment, seen_oids)
        return _render_value(environment.from_string(content), context)


def text(name: str, value: Any) -> str:
    """A field that must be text. Raises OptionError: a float, for example, may have lost digits, and ``None`` comes from a
    template without a value."""
    if value == "None":
        raise OptionError(f"{name} is the text None: its template had no value")
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise OptionError(f"{name} must be text; the template gave {value!r} ({type(value).__name__}): put it in quotes")


def optional_text(name: str, value: Any) -> str | None:
    """An optional field: None, or text that is not blank. Raises OptionError."""
    if value is None:
        return None
    given = text(name, value)
    if not given.strip():
        raise OptionError(f"{name} is empty: leave it out, or give it a value")
    return given


def flag(name: str, value: Any) -> bool:
    """A flag that a template may have converted to text. Raises OptionError for text that is neither true nor false, and for None:
    a dry run whose template has no value must not become a real one."""
    word = str(value).strip().lower()
    if word not in _TRUE + _FALSE:
        raise OptionError(f"{name} {value!r} must be true or false")
    return word in _TRUE


def check_given(name: str, value: Any) -> None:
    """Raise OptionError for a part of a nested field whose template has no value: None in native rendering, else its text."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            check_given(f"{name}.{key}", part)
    elif isinstance(value, list | tuple):
        for i, part in enumerate(value):
            check_given(f"{name}[{i}]", part)
    elif value is None:
        raise OptionError(f"{name} has no value: leave it out, or give it one")
    elif value == "None":
        text(name, value)


def _render_value(template: jinja2.Template, context: Any) -> Any:
    known = copy.copy(context)
    known.update({name: value for name, value in template.globals.items() if name not in context})
    environment = template.environment
    try:
        nodes = list(template.root_render_func(environment.context_class(environment, known, template.name, template.blocks)))
    except Exception:  # noqa: BLE001 - raised again, with the template's line
        environment.handle_exception()
    return nodes[0] if len(nodes) == 1 else "".join(str(node) for node in nodes)
