"""Removes a fix from the package at run time: one function gets the behaviour of another.

A function's code is replaced, not its name, so every module that has imported it calls the replacement too. The replacement gets
the present function as its first argument. One that no longer fits the functions around it proves nothing, so it is an error.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

Replacement = Callable[..., Any]


@contextmanager
def replaced(functions: Mapping[str, Replacement]) -> Iterator[None]:
    """``functions``: ``module:qualified name`` below ``iceberg_ops``, or in ``spark_jobs`` with its full name -> its replacement,
    which gets the original as its first argument. Raises RuntimeError in the end if a replacement failed with an error of Python,
    such as for its arguments."""
    with ExitStack() as stack:
        for name, replacement in functions.items():
            stack.enter_context(_replaced(name, _function(name), replacement))
        yield


def _function(name: str) -> FunctionType:
    module, _, qualified = name.partition(":")
    found: Any = importlib.import_module(module if module.startswith("spark_jobs.") else f"iceberg_ops.{module}")
    for part in qualified.split("."):
        found = vars(found)[part]
    found = found.fget if isinstance(found, property) else found
    assert isinstance(found, FunctionType), f"{name} is no function"
    assert not found.__code__.co_freevars, f"{name} has variables of a function around it"
    return found


@contextmanager
def _replaced(what: str, function: FunctionType, replacement: Replacement) -> Iterator[None]:
    code, name, broken = function.__code__, f"_replacement_{id(function)}", list[Exception]()
    original = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    original.__kwdefaults__ = function.__kwdefaults__

    def call(*args: Any, **more: Any) -> Any:
        try:
            return replacement(original, *args, **more)
        except (TypeError, AttributeError, NameError) as e:
            broken.append(e)
            raise

    function.__globals__[name] = call
    try:
        function.__code__ = _call.__code__.replace(co_names=(name,), co_name=function.__name__)
        yield
    finally:
        function.__code__ = code
        del function.__globals__[name]
        if broken:
            raise RuntimeError(f"the replacement of {what} does not fit the package any more") from broken[0]


def _call(*args: Any, **more: Any) -> Any:
    return _replacement(*args, **more)  # type: ignore[name-defined]  # noqa: F821 - the name is put in
