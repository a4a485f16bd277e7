"""The source of tests, changed for a control experiment (see ``control``) and in nothing else.

Two ways. *Turned*, assertions ask for something wrong: ``f() == 7`` becomes ``f() == 8``, which right code fails.
*Denied*, they hold of right code again, in another way: ``f() == 7`` becomes ``not f() == 8``, which code fails that
says yes to everything.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable

_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertEqual": "assertNotEqual",
}
_OPPOSITES |= {after: before for before, after in _OPPOSITES.items()}
_Change = Callable[[ast.expr], ast.expr | None]
_ALMOST = "assertAlmostEqual"
_EQUALITIES = frozenset(
    f"assert{kind}Equal{plural}"
    for kind, plural in [("", ""), ("", "s"), *((kind, "") for kind in ("List", "Dict", "Set", "Tuple", "Count"))]
) | {_ALMOST, "assertMultiLineEqual", "assertSequenceEqual"}


def turn(source: str, *, all_of_them: bool = False) -> str | None:
    """The source with assertions changed into ones that right code fails; None when it has none, or no syntax.

    Changed are values that are written out and compared with for equality; with ``all_of_them`` every assertion.
    Nothing but those texts is different: code under test cannot tell one from the other by the rest of the file.
    """
    return _changed_source(source, _Turner(all_of_them))


def deny(source: str) -> str | None:
    """The source with every equality with a value that is written out changed into: it does not equal another one.

    None when it has none, or no syntax. ``==`` and not ``!=``: what equals everything may still say of itself that it
    differs.
    """
    return _changed_source(source, _Denier())


def _changed_source(source: str, changer: _Changer) -> str | None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    changer.visit(tree)
    if not changer.texts:
        return None
    data = source.encode(errors="replace")
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for first, start, last, end, text in sorted(changer.texts, reverse=True):
        data = data[: starts[first - 1] + start] + text.encode() + data[starts[last - 1] + end :]
    return data.decode(errors="replace")


class _Changer(ast.NodeVisitor):
    """Collects texts to replace: first line, column, last line, column, new text; columns in bytes."""

    def __init__(self) -> None:
        self.texts: list[tuple[int, int, int, int, str]] = []

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr.startswith("assert"):
            self.method(node, node.func)
        else:
            self.generic_visit(node)

    def method(self, node: ast.Call, function: ast.Attribute) -> None:
        """Change a call of ``unittest``'s."""
        raise NotImplementedError

    def replace(self, node: ast.expr, by: ast.expr) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        text = ast.unparse(ast.fix_missing_locations(by))
        self.texts.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text))


class _Turner(_Changer):
    def __init__(self, all_of_them: bool) -> None:
        super().__init__()
        self.all_of_them = all_of_them

    def visit_Assert(self, node: ast.Assert) -> None:
        changed = _other_value(node.test, _changed_value)
        if changed is None and self.all_of_them:
            changed = ast.UnaryOp(ast.Not(), node.test)
        if changed is not None:
            self.replace(node.test, changed)

    def method(self, node: ast.Call, function: ast.Attribute) -> None:
        if function.attr in _EQUALITIES and len(node.args) >= 2:
            for index in (1, 0):
                changed = _changed_value(node.args[index])
                if changed is not None:
                    self.replace(node.args[index], changed)
                    return
        if self.all_of_them and function.attr in _OPPOSITES:
            assert function.end_lineno is not None
            assert function.end_col_offset is not None
            start = function.end_col_offset - len(function.attr.encode())
            line = function.end_lineno
            self.texts.append((line, start, line, function.end_col_offset, _OPPOSITES[function.attr]))


class _Denier(_Changer):
    def visit_Assert(self, node: ast.Assert) -> None:
        changed = _other_value(node.test, _changed)
        if changed is not None:
            self.replace(node.test, ast.UnaryOp(ast.Not(), changed))

    def method(self, node: ast.Call, function: ast.Attribute) -> None:
        if function.attr not in _EQUALITIES or len(node.args) < 2:
            return
        for index in (1, 0):
            other = _changed(node.args[index])
            if other is not None:
                sides = [other if at == index else each for at, each in enumerate(node.args[:2])]
                if function.attr == _ALMOST:
                    name, arguments = "assertNotAlmostEqual", [*sides, *node.args[2:]]
                else:
                    name = "assertFalse"
                    arguments = [ast.Compare(sides[0], [ast.Eq()], [sides[1]]), *node.args[2:]]
                self.replace(node, ast.Call(ast.Attribute(function.value, name, ast.Load()), arguments, node.keywords))
                return


def _other_value(test: ast.expr, changed: _Change) -> ast.expr | None:
    """``x == 7`` as ``x == 8``: unlike ``not x == 7``, an object that equals everything passes that."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    test = copy.deepcopy(test)
    right, left = changed(test.comparators[0]), changed(test.left)
    if right is not None:
        test.comparators[0] = right
    elif left is not None:
        test.left = left
    else:
        return None
    return test


def _changed_value(node: ast.expr) -> ast.expr | None:
    """As ``_changed``, but not of ``True``, ``False`` and ``None``: no class of one's own can pass for these."""
    plain = isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))
    return None if plain else _changed(node)


def _changed(node: ast.expr) -> ast.expr | None:
    """A literal with another value; None for what is not a literal."""
    if isinstance(node, ast.Constant):
        return _changed_constant(node.value)
    if isinstance(node, ast.UnaryOp):
        inner = _changed(node.operand)
        return None if inner is None else ast.UnaryOp(node.op, inner)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        if not node.elts:
            return type(node)([ast.Constant(0)], ast.Load()) if not isinstance(node, ast.Set) else None
        for index, each in enumerate(node.elts):
            inner = _changed(each)
            if inner is not None:
                node = copy.deepcopy(node)
                node.elts[index] = inner
                return node
    if isinstance(node, ast.Dict):
        if not node.keys:
            return ast.Dict([ast.Constant(0)], [ast.Constant(0)])
        for index, each in enumerate(node.values):
            inner = _changed(each)
            if inner is not None:
                node = copy.deepcopy(node)
                node.values[index] = inner
                return node
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("approx") and node.args:
        inner = _changed(node.args[0])
        return None if inner is None else ast.Call(node.func, [inner, *node.args[1:]], node.keywords)
    return None


def _changed_constant(value: object) -> ast.expr | None:
    if isinstance(value, bool):
        return ast.Constant(not value)
    if isinstance(value, int | float):
        return ast.Constant(value + 1 if value + 1 != value else -value)  # 1e300 + 1 is 1e300
    if isinstance(value, str):
        return ast.Constant(value + "~")
    if isinstance(value, bytes):
        return ast.Constant(value + b"~")
    return ast.Constant(0) if value is None else None
