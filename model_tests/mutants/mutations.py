"""Small changes of Python source, one at a time: the material of random mutation testing.

1. `mutations` parses a module and asks each operator of `OPERATORS` for replacements of each node.
2. A replacement is spliced into the text, so that the rest of the module stays as it is. One that does not
   compile, or compiles to the same tree, is left out.
3. `sampled` draws from the mutations of many modules by a seed, at most one a line, so that a line of many operators
   does not count more than another.

Nothing is changed where a change means nothing: annotations, docstrings, the text of errors, assertions, f-strings,
and blocks under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Final, TypeAlias


@dataclass(frozen=True, order=True)
class Mutation:
    """One change of a module: of the code from ``start`` to ``end``, offsets in the UTF-8 bytes of its text.

    ``module``: the path of the file from the root of the repository. ``line``: from 1. ``first``, ``last``: the lines
    of the statement around it, without the statements within that. ``operator``: its name in `OPERATORS`.
    ``text``: the line as it is, stripped. ``before``, ``after``: the code that changes.
    """

    module: str
    line: int
    first: int
    last: int
    start: int
    end: int
    operator: str
    text: str
    before: str
    after: str

    @property
    def lines(self) -> range:
        """The lines of the statement around the change."""
        return range(self.first, self.last + 1)

    @property
    def change(self) -> str:
        """The change on one line, which names it together with its module and the text of its line."""
        return f"{_on_one_line(self.before)} -> {_on_one_line(self.after)}"

    def applied(self, source: str) -> str:
        """Return ``source``, the text of the module, with the change."""
        stored = source.encode()
        return (stored[: self.start] + self.after.encode() + stored[self.end :]).decode()


def _on_one_line(code: str) -> str:
    return " ".join(code.split())


Replacements: TypeAlias = Iterator[ast.AST]
Operator: TypeAlias = Callable[[ast.AST], Replacements]

_COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}

_ARITHMETIC: Final[Mapping[type[ast.operator], tuple[type[ast.operator], ...]]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.FloorDiv,),
    ast.FloorDiv: (ast.Mult,),
    ast.Div: (ast.Mult,),
    ast.Mod: (ast.Add,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitOr,),
}

_CALLS: Final[Mapping[str, str]] = {"min": "max", "max": "min", "any": "all", "all": "any"}

_NO_KEYWORDS: Final = ("zip", "field", "dataclass")
"""Functions whose keywords, such as ``strict``, are assertions, or say how a value is printed."""

MOST: Final = 64
"""The greatest number that is changed by one. Larger ones are sizes, whose exact value nothing depends on.

So are those that a shift of two numbers spells, such as ``1 << 20``.
"""


def _comparison(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
                yield ast.Compare(node.left, ops, node.comparators)


def _arithmetic(node: ast.AST) -> Replacements:
    if isinstance(node, ast.BinOp):
        for other in _ARITHMETIC.get(type(node.op), ()):
            yield ast.BinOp(node.left, other(), node.right)


def _connective(node: ast.AST) -> Replacements:
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)


def _dropped_operand(node: ast.AST) -> Replacements:
    if isinstance(node, ast.BoolOp):
        for at in range(len(node.values)):
            rest = [*node.values[:at], *node.values[at + 1 :]]
            yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)


def _negation(node: ast.AST) -> Replacements:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand


def _constant(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield ast.Constant(not node.value)
        elif isinstance(node.value, int) and node.value <= MOST:
            yield ast.Constant(node.value + 1)
            yield ast.Constant(node.value - 1)


def _function(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Name) and node.id in _CALLS and isinstance(node.ctx, ast.Load):
        yield ast.Name(_CALLS[node.id], ast.Load())


def _one_branch(node: ast.AST) -> Replacements:
    if isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse


def _dropped_filter(node: ast.AST) -> Replacements:
    if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
        for at, part in enumerate(node.generators):
            if part.ifs:
                bare = ast.comprehension(part.target, part.iter, [], part.is_async)
                parts = [*node.generators[:at], bare, *node.generators[at + 1 :]]
                if isinstance(node, ast.DictComp):
                    yield ast.DictComp(node.key, node.value, parts)
                else:
                    yield type(node)(node.elt, parts)


def _dropped_statement(node: ast.AST) -> Replacements:
    calls = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    stores = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple)
    if calls or stores or isinstance(node, ast.AugAssign | ast.Continue | ast.Break):
        yield ast.Pass()


def _dropped_raise(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Raise):
        yield ast.Pass()


def _returned_value(node: ast.AST) -> Replacements:
    if isinstance(node, ast.Return) and node.value is not None:
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            return
        if isinstance(node.value, ast.Compare | ast.BoolOp):
            yield ast.Return(ast.UnaryOp(ast.Not(), node.value))
        yield ast.Return(ast.Constant(None))


def _condition(node: ast.AST) -> Replacements:
    """Yield the condition of an ``if`` or ``while``, negated and replaced; `_places` gives them as `_Condition`."""
    if isinstance(node, _Condition):
        if not isinstance(node.test, ast.Compare):  # whose operators are changed anyway
            yield ast.UnaryOp(ast.Not(), node.test)
        if not node.loops:
            yield ast.Constant(True)
        yield ast.Constant(False)


class _Condition(ast.AST):
    """The test of a statement, as a node of its own."""

    def __init__(self, test: ast.expr, *, loops: bool) -> None:
        super().__init__()
        self.test, self.loops = test, loops


OPERATORS: Final[Mapping[str, Operator]] = {
    "comparison": _comparison,
    "arithmetic": _arithmetic,
    "and/or": _connective,
    "operand dropped": _dropped_operand,
    "negation dropped": _negation,
    "constant": _constant,
    "min/max, any/all": _function,
    "one branch": _one_branch,
    "filter dropped": _dropped_filter,
    "statement dropped": _dropped_statement,
    "raise dropped": _dropped_raise,
    "returned value": _returned_value,
    "condition": _condition,
}


@cache  # each run asks for the mutations of the same modules, to draw from them and to find stale equivalents
def mutations(module: str, source: str) -> tuple[Mutation, ...]:
    """Return all mutations of a module, in the order of their places.

    ``module``: its path from the root of the repository; ``source``: its text.
    """
    lines = source.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    stored = source.encode()
    found = []
    tree = ast.parse(source)
    blocks = list(_blocks(tree.body, starts))
    for node, around in _places(tree, range(0)):
        at: ast.AST = node.test if isinstance(node, _Condition) else node
        assert isinstance(at, ast.expr | ast.stmt), "only these have places"
        assert at.end_lineno is not None, "parsed from text"
        assert at.end_col_offset is not None, "parsed from text"
        start = starts[at.lineno - 1] + at.col_offset
        end = starts[at.end_lineno - 1] + at.end_col_offset
        for name, operator in OPERATORS.items():
            for replacement in operator(node):
                mutation = Mutation(
                    module,
                    at.lineno,
                    around.start,
                    around.stop - 1,
                    start,
                    end,
                    name,
                    lines[at.lineno - 1].decode().strip(),
                    stored[start:end].decode(),
                    _spelled(replacement),
                )
                if ast.dump(replacement) != ast.dump(at) and _compiles(_changed(stored, blocks, mutation)):
                    found.append(mutation)
    return tuple(sorted(set(found)))


Block: TypeAlias = tuple[int, int, bytes]
"""Where a statement begins and ends that can be parsed apart, in the bytes of a module, and what has to precede it."""


def _blocks(body: Sequence[ast.stmt], starts: Sequence[int], before: bytes = b"") -> Iterator[Block]:
    """Yield the statements of a module, and instead of each class those within it."""
    for one in body:
        assert one.end_lineno is not None, "parsed from text"
        if isinstance(one, ast.ClassDef):
            yield from _blocks(one.body, starts, b"if True:\n")
        else:
            yield starts[one.lineno - 1], starts[one.end_lineno], before


def _changed(stored: bytes, blocks: Sequence[Block], mutation: Mutation) -> bytes:
    """Return the block around a change, with the change: it compiles if all of the module does, and sooner."""
    begin, end, before = next(one for one in blocks if one[0] <= mutation.start < one[1])
    return before + stored[begin : mutation.start] + mutation.after.encode() + stored[mutation.end : end]


_ATOMS: Final = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.stmt, ast.GeneratorExp)


def _spelled(node: ast.AST) -> str:
    """Return the code of a replacement, in parentheses where the code around it might take it apart."""
    text = ast.unparse(ast.fix_missing_locations(node))
    return text if isinstance(node, _ATOMS) or text[0] in "([{" else f"({text})"


def _compiles(source: bytes) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def _places(node: ast.AST, around: range) -> Iterator[tuple[ast.AST, range]]:
    """Yield the nodes that may be changed, conditions of statements as `_Condition`, each with the lines around."""
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.stmt):
        around = _lines(node)
    if isinstance(node, ast.Raise):
        yield node, around
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node, around
    if isinstance(node, ast.If | ast.While):
        yield _Condition(node.test, loops=isinstance(node, ast.While)), around
    for child in _parts(node):
        yield from _places(child, around)


def _lines(node: ast.stmt) -> range:
    """Return the lines of a statement up to the first one within it."""
    assert node.end_lineno is not None, "parsed from text"
    inner: list[ast.stmt] = getattr(node, "body", [])
    return range(node.lineno, max(node.lineno, inner[0].lineno - 1) + 1 if inner else node.end_lineno + 1)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the children of a node, without annotations, decorators and base classes."""
    if isinstance(node, ast.AnnAssign):
        names_a_type = isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
        if node.value is not None and not names_a_type:
            yield node.value
    elif isinstance(node, ast.FunctionDef):
        yield from (default for default in (*node.args.defaults, *node.args.kw_defaults) if default)
        yield from node.body
    elif isinstance(node, ast.ClassDef):
        yield from node.body
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift) and _are_numbers(node):
        return
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NO_KEYWORDS:
        yield from node.args
    else:
        yield from ast.iter_child_nodes(node)


def _are_numbers(node: ast.BinOp) -> bool:
    return isinstance(node.left, ast.Constant) and isinstance(node.right, ast.Constant)


def sampled(found: Sequence[Mutation], number: int, seed: int) -> list[Mutation]:
    """Draw ``number`` of the mutations, or as many as have a line of their own.

    They come in an order that is drawn as well: the first of them are the same, whatever the number.
    """
    draw = random.Random(seed)
    lines = [list(of_line) for _, of_line in groupby(sorted(found), key=lambda one: (one.module, one.line))]
    draw.shuffle(lines)
    return [draw.choice(of_line) for of_line in lines[:number]]
