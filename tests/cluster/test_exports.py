"""`cluster` exports every error that the client's methods raise."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil

import pytest

import cluster
import cluster.client
from cluster import errors
from commitlog.advice import Advised

MODULES = sorted(
    found.name for found in pkgutil.walk_packages(cluster.client.__path__, "cluster.client.")
)


def raised_by(name: str) -> set[type[BaseException]]:
    """Classes of ours that a module names in its `raise` statements."""
    module = importlib.import_module(name)
    names = {**vars(builtins), **vars(module)}
    found = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            what = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(what, ast.Name) and isinstance(names.get(what.id), type):
                found.add(names[what.id])
    return {error for error in found if issubclass(error, Advised)}


@pytest.mark.parametrize("module", MODULES)
def test_what_a_module_of_the_client_raises_is_exported(module: str) -> None:
    for error in raised_by(module):
        assert error.__name__ in cluster.__all__
        assert getattr(cluster, error.__name__) is error


def test_the_search_finds_what_is_raised() -> None:
    found = {error.__name__ for module in MODULES for error in raised_by(module)}
    assert {"ClientClosed", "TopicNotFound", "ClientConfigError"} <= found


def test_every_error_that_a_response_can_become_is_exported() -> None:
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.ClusterError)
    ]
    assert len(classes) > 30
    for error in classes:
        assert getattr(cluster, error.__name__) is error
        assert error.__name__ in cluster.__all__
