"""A pytest plugin that removes one ``raise`` from a module before it is imported (``test_every_check_matters``)."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

MODULE, _, LINE = os.environ["ICEBERG_OPS_MUTATION"].partition(":")


class _Without(ast.NodeTransformer):
    def visit_Raise(self, node: ast.Raise) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node) if node.lineno == int(LINE) else node


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        tree = _Without().visit(ast.parse(self.get_data(self.path)))
        return compile(ast.fix_missing_locations(tree), self.path, "exec")


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != MODULE:
            return None
        found = PathFinder.find_spec(name, path)
        assert found is not None
        assert found.origin is not None
        return importlib.util.spec_from_file_location(name, found.origin, loader=_Loader(name, found.origin))


assert MODULE not in sys.modules, f"{MODULE} is imported already"
sys.meta_path.insert(0, _Finder)
