"""Functions of the broker that can put records into the log, by the types of what they use.

    Appender.open, LogPort.propose …  ◄── StateWriter.write ◄── a function with a StateWriter …

A function is such a writer when it calls one, or hands one on (`done=ports.writer.write`), in its
own text or in that of a function or class inside it. What an expression is, its types tell: those
of parameters, fields, properties and answers, through any local name. Of a Protocol every class
counts that has its methods; of a class those that are made from it, too. So the name of a receiver
does not matter, nor in which module a writer stands.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .source_tree import Source, dotted

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Types = frozenset[str]
NONE: Types = frozenset()


@dataclass(eq=False)
class Kind:
    """A class: the types of its fields, its methods, the classes it is made from."""

    name: str
    module: str
    is_protocol: bool
    bases: tuple[str, ...]
    fields: dict[str, Types] = field(default_factory=dict)
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)


class Program:
    """The classes and functions of some files, and which functions write.

    `roots`: methods that write, as `module.Class.method`; `beside`: functions that are not looked
    into. `alone`: classes whose methods count only as they are themselves, not as classes made from
    them have them.
    """

    def __init__(
        self,
        parts: Iterable[Source],
        roots: Iterable[str],
        beside: Iterable[str] = (),
        alone: Iterable[str] = (),
    ) -> None:
        self._parts, self._beside, self._alone = [*parts], {*beside}, {*alone}
        self.kinds: dict[str, Kind] = {}
        self.functions: dict[str, tuple[str, ast.FunctionDef]] = {}
        self._names: dict[str, dict[str, str]] = {}
        self._below: dict[str, set[str]] = {}
        for part in self._parts:
            self._declare(part)
        for part in self._parts:
            self._type_fields(part)
        for kind in self.kinds.values():
            for base in kind.bases:
                self._below.setdefault(base, set()).add(kind.name)
        self._fill_protocols()
        #: Function → names that it takes from values of unknown classes.
        self.unknown: dict[str, set[str]] = {}
        #: Function → functions that it calls or hands on.
        self.uses = {name: self._uses(name) for name in self._all()}
        self.writers = self._reaching({*roots})

    # -- what there is -----------------------------------------------------------------------------

    def _declare(self, part: Source) -> None:
        names = self._names.setdefault(part.name, {})
        for node in part.nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in part.tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names[node.name] = f"{part.name}.{node.name}"
            if isinstance(node, ast.FunctionDef):
                self.functions[f"{part.name}.{node.name}"] = part.name, node
            elif isinstance(node, ast.ClassDef):
                self._declare_class(part.name, node)

    def _declare_class(self, module: str, node: ast.ClassDef) -> None:
        names = self._names[module]
        bases = [one.value if isinstance(one, ast.Subscript) else one for one in node.bases]
        known = [names.get(one.id, one.id) for one in bases if isinstance(one, ast.Name)]
        name = f"{module}.{node.name}"
        is_protocol = any(one.endswith("Protocol") for one in known)
        kind = self.kinds[name] = Kind(name, module, is_protocol, tuple(known))
        for method in node.body:
            if isinstance(method, ast.FunctionDef):
                kind.methods[method.name] = method
                self.functions[f"{name}.{method.name}"] = module, method

    def _type_fields(self, part: Source) -> None:
        for node in part.tree.body:
            if not isinstance(node, ast.ClassDef):
                continue
            kind = self.kinds[f"{part.name}.{node.name}"]
            for one in node.body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                    kind.fields[one.target.id] = self._annotated(part.name, one.annotation)
            for method in kind.methods.values():
                if any(
                    isinstance(d, ast.Name) and "property" in d.id for d in method.decorator_list
                ):
                    kind.fields[method.name] = self._annotated(part.name, method.returns)

    def _fill_protocols(self) -> None:
        """Below a Protocol stand the classes that have all its methods, by name and length."""
        for protocol in self.kinds.values():
            if protocol.is_protocol and protocol.methods:
                wanted = {*map(_shape, protocol.methods.values())}
                self._below.setdefault(protocol.name, set()).update(
                    kind.name
                    for kind in self.kinds.values()
                    if not kind.is_protocol
                    and wanted <= {*map(_shape, kind.methods.values()), *_read(kind.fields)}
                )

    def _all(self) -> Iterator[str]:
        """Functions and methods; `__init__` of a class first, since it types fields."""
        yield from sorted(self.functions, key=lambda name: not name.endswith("__init__"))

    # -- types -------------------------------------------------------------------------------------

    def _annotated(self, module: str, node: ast.expr | None) -> Types:
        """The classes that an annotation names, those in lists and dicts included."""
        if node is None:
            return NONE
        names = self._names[module]
        found = set[str]()
        for one in ast.walk(node):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                found |= self._annotated(module, ast.parse(one.value, mode="eval").body)
            elif isinstance(one, ast.Name) and names.get(one.id) in self.kinds:
                found.add(names[one.id])
        return frozenset(found)

    def _lineage(self, name: str) -> Iterator[Kind]:
        kind = self.kinds.get(name)
        if kind is not None:
            yield kind
            for base in kind.bases:
                yield from self._lineage(base)

    def _methods(self, types: Types, name: str) -> Iterator[str]:
        """The functions that `value.name` may be."""
        for one in types:
            below = () if one in self._alone else self._below.get(one, ())
            for start in (one, *below):
                for kind in self._lineage(start):
                    if name in kind.methods:
                        yield f"{kind.name}.{name}"
                        break

    def _fields(self, types: Types, name: str) -> Types:
        found = set[str]()
        for one in types:
            for start in (one, *self._below.get(one, ())):
                for kind in self._lineage(start):
                    found |= kind.fields.get(name, NONE)
        return frozenset(found)

    # -- uses --------------------------------------------------------------------------------------

    def _uses(self, name: str) -> set[str]:
        module, function = self.functions[name]
        owner = self.kinds.get(name.rpartition(".")[0])
        env: dict[str, Types] = {}
        if owner is not None and function.args.args:
            env[function.args.args[0].arg] = frozenset({owner.name})
        body = _Body(self, module, env, owner)
        found = body.uses(function)
        self.unknown[name] = body.unknown
        return found

    def _reaching(self, found: set[str]) -> set[str]:
        """Those, and all that use them, directly or not."""
        by: dict[str, set[str]] = {}
        for name, uses in self.uses.items():
            for used in uses:
                by.setdefault(used, set()).add(name)
        left = [*found]
        while left:
            new = by.get(left.pop(), set()) - found - self._beside
            found |= new
            left += new
        return found

    def reached(self, names: Iterable[str]) -> set[str]:
        """These functions, and all that they use, directly or not."""
        found, left = set[str](), [*names]
        while left:
            name = left.pop()
            if name not in found and name not in self._beside:
                found.add(name)
                left += self.uses.get(name, ())
        return found

    # -- handlers ----------------------------------------------------------------------------------

    def handlers(self, wrappers: Iterable[str]) -> Iterator[tuple[str, set[str]]]:
        """Of each `Handler(…)`: where it stands, and the functions that it is made from.

        A wrapper, by its name, carries out what the function in it decides.
        """
        for part in self._parts:
            for node in part.nodes:
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                    continue
                if self._names[part.name].get(node.func.id, "").endswith(".requests.Handler"):
                    used = _Body(self, part.name, {}, None)
                    for arg in (*node.args, *(one.value for one in node.keywords)):
                        used.visit(arg)
                    yield f"{part.path}:{node.lineno}", used.found - {*wrappers}


def _shape(method: ast.FunctionDef) -> tuple[str, int]:
    """A method's name and the number of its parameters."""
    return method.name, len(method.args.args)


def _read(fields: Iterable[str]) -> Iterator[tuple[str, int]]:
    """The shape of a property that gives a field."""
    return ((name, 1) for name in fields)


class _Body:
    """The functions that one function's text uses, lambdas and functions inside it included."""

    def __init__(
        self, program: Program, module: str, env: dict[str, Types], owner: Kind | None
    ) -> None:
        self._program, self._module, self._env, self._owner = program, module, env, owner
        self.found, self.unknown = set[str](), set[str]()

    def uses(self, function: Function) -> set[str]:
        """Walk twice: a local name may be used in front of the line that types it."""
        for _ in range(2):
            self.visit(function)
        return self.found

    def visit(self, node: ast.AST) -> None:
        program = self._program
        for one in ast.walk(node):
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                args = one.args
                for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
                    if arg.annotation is not None:
                        self._env[arg.arg] = program._annotated(self._module, arg.annotation)
            elif isinstance(one, ast.Assign):
                for target in one.targets:
                    self._bind(target, one.value)
            elif isinstance(one, ast.AnnAssign):
                self._put(one.target, program._annotated(self._module, one.annotation))
            elif isinstance(one, ast.NamedExpr):
                self._bind(one.target, one.value)
            elif isinstance(one, ast.For | ast.comprehension):
                self._put(one.target, self.types(one.iter))
            elif isinstance(one, ast.withitem) and one.optional_vars is not None:
                self._put(one.optional_vars, self.types(one.context_expr))
            elif isinstance(one, ast.Attribute):
                types = self.types(one.value)
                self.found.update(program._methods(types, one.attr))
                if not types:
                    self.unknown.add(one.attr)
            elif isinstance(one, ast.Name) and one.id not in self._env:
                name = program._names[self._module].get(one.id, "")
                if name in program.functions:
                    self.found.add(name)
                elif f"{name}.__init__" in program.functions:
                    self.found.add(f"{name}.__init__")

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for one, its in zip(target.elts, value.elts, strict=False):
                self._put(one, self.types(its))
        else:
            self._put(target, self.types(value))

    def _put(self, target: ast.expr, types: Types) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for one in target.elts:
                self._put(one, types)
        elif isinstance(target, ast.Name):
            self._env[target.id] = self._env.get(target.id, NONE) | types
        elif self._owner is not None and dotted(target).startswith("self."):
            name, fields = dotted(target).removeprefix("self."), self._owner.fields
            fields[name] = fields.get(name, NONE) | types

    def types(self, node: ast.expr) -> Types:
        """The classes that the value of an expression may have, or an item of it."""
        program = self._program
        if isinstance(node, ast.Name):
            return self._env.get(node.id, NONE)
        if isinstance(node, ast.Attribute):
            return program._fields(self.types(node.value), node.attr)
        if isinstance(node, ast.Call):
            return self._answer(node)
        if isinstance(node, ast.Subscript | ast.Starred | ast.Await):
            return self.types(node.value)
        if isinstance(node, ast.NamedExpr):
            return self.types(node.value)
        if isinstance(node, ast.IfExp):
            return self.types(node.body) | self.types(node.orelse)
        if isinstance(node, ast.BoolOp):
            return frozenset().union(*map(self.types, node.values))
        if isinstance(node, ast.Tuple | ast.List):
            return frozenset().union(*map(self.types, node.elts))
        return NONE

    def _answer(self, node: ast.Call) -> Types:
        program, func = self._program, node.func
        given = frozenset[str]().union(*map(self.types, node.args)) if node.args else NONE
        if isinstance(func, ast.Name):
            name = program._names[self._module].get(func.id, "")
            if name in program.kinds:
                return frozenset({name})
            if name not in program.functions:
                return given  # cast(…), list(…), next(…)
            functions = [name]
        elif isinstance(func, ast.Attribute):
            functions = [*program._methods(self.types(func.value), func.attr)]
            if not functions:
                return self.types(func.value)  # rows.values(), rows.get(…)
        else:
            return NONE
        found = NONE
        for name in functions:
            module, function = program.functions[name]
            its = program._annotated(module, function.returns)
            found |= its or given  # LeadershipParts.add answers what it is given
        return found
