"""What PySpark asks its JVM again and again, asked once: classes, packages and methods by name, and whether IPython is there.

The JVM looks for a name in each of Spark's three hundred jars, once for each part of it, and keeps no note of what is not there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

KEPT = (JavaClass, JavaMember, JavaPackage)
"""Answers that name something. Others are values, which may be other ones the next time."""


def remember_names() -> None:
    """For all of this process."""
    for owner in (JVMView, JavaPackage, JavaClass):
        owner.__getattr__ = remembering(owner.__getattr__)
    if find_spec("IPython") is None:
        sys.modules["IPython"] = None  # type: ignore[assignment] - an import of it fails at once


def remembering(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def found(owner: Any, name: str) -> Any:
        answer = look_up(owner, name)
        if isinstance(answer, KEPT):
            owner.__dict__[name] = answer
        return answer

    return found
