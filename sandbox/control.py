"""The control experiment of a verdict: the same tests, turned around so that right code must fail them.

Tests that run in one process with the code they test believe what that process says. Code that leaves early, patches
the runner, returns objects that equal everything, or looks up in its caller what it should return, passes them; and it
passes them as well when they ask for something wrong, because it never knew what is right. So where a script gives a
reward of 1, the script runs again, in another fresh sandbox, over tests of which every assertion was changed. If that
earns 1, too, the first was worth nothing.

What it does not tell: code that is right in some answers and lies in others (an ``int`` of its own that equals
everything), where what was turned is among the right ones. Only tests as questions (``questions``) are proof.

That a task's tests *can* be turned around is known only when its reference patch has failed them so; see
``lego_verl.tasks``.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_OPPOSITES = {
    "assertTrue": "assertFalse",
    "assertIn": "assertNotIn",
    "assertIs": "assertIsNot",
    "assertIsNone": "assertIsNotNone",
    "assertIsInstance": "assertNotIsInstance",
    "assertEqual": "assertNotEqual",
}
_OPPOSITES |= {after: before for before, after in _OPPOSITES.items()}
_EQUALITIES = frozenset({"assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertAlmostEqual"})


@contextlib.contextmanager
def turned_folder(tests: Path) -> Iterator[Path | None]:
    """A copy of a folder of tests with the assertions of its Python files turned; None where there are none.

    Where anything is compared with a value that is written out, only such values are changed: the less is turned, the
    less it takes to be caught. Else every assertion becomes its opposite.
    """
    sources = {path: path.read_text(errors="replace") for path in sorted(tests.rglob("*.py")) if path.is_file()}
    turned: dict[Path, str] = {}
    for all_of_them in (False, True):
        found = {path: turn(source, all_of_them=all_of_them) for path, source in sources.items()}
        turned = turned or {path: source for path, source in found.items() if source is not None}
    if not turned:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="lego-control-"))
    try:
        folder.chmod(0o755)
        shutil.copytree(tests, folder / "tests", symlinks=True)
        for path, source in turned.items():
            (folder / "tests" / path.relative_to(tests)).write_text(source)
        yield folder / "tests"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def turn(source: str, *, all_of_them: bool = False) -> str | None:
    """The source with assertions changed into ones that right code fails; None when it has none, or no syntax.

    Changed are values that are written out and compared with for equality; with ``all_of_them`` every assertion.
    Nothing but those texts is different: code under test cannot tell one from the other by the rest of the file.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    turner = _Turner(all_of_them)
    turner.visit(tree)
    if not turner.texts:
        return None
    data = source.encode(errors="replace")
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for first, start, last, end, text in sorted(turner.texts, reverse=True):
        data = data[: starts[first - 1] + start] + text.encode() + data[starts[last - 1] + end :]
    return data.decode(errors="replace")


class _Turner(ast.NodeVisitor):
    """Collects texts to replace: first line, column, last line, column, new text; columns in bytes."""

    def __init__(self, all_of_them: bool) -> None:
        self.all_of_them = all_of_them
        self.texts: list[tuple[int, int, int, int, str]] = []

    def visit_Assert(self, node: ast.Assert) -> None:
        changed = _other_value(node.test)
        if changed is None and self.all_of_them:
            changed = ast.UnaryOp(ast.Not(), node.test)
        if changed is not None:
            self._replace(node.test, changed)

    def visit_Call(self, node: ast.Call) -> None:
        if not isinstance(node.func, ast.Attribute) or not node.func.attr.startswith("assert"):
            self.generic_visit(node)
            return
        if node.func.attr in _EQUALITIES and len(node.args) >= 2:
            for index in (1, 0):
                changed = _changed_value(node.args[index])
                if changed is not None:
                    self._replace(node.args[index], changed)
                    return
        if self.all_of_them and node.func.attr in _OPPOSITES:
            name = node.func
            assert name.end_lineno is not None
            assert name.end_col_offset is not None
            start = name.end_col_offset - len(name.attr.encode())
            self.texts.append((name.end_lineno, start, name.end_lineno, name.end_col_offset, _OPPOSITES[name.attr]))

    def _replace(self, node: ast.expr, by: ast.expr) -> None:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        text = ast.unparse(ast.fix_missing_locations(by))
        self.texts.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text))


def _other_value(test: ast.expr) -> ast.expr | None:
    """``x == 7`` as ``x == 8``: unlike ``not x == 7``, an object that equals everything passes that."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq):
        return None
    test = copy.deepcopy(test)
    right, left = _changed_value(test.comparators[0]), _changed_value(test.left)
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
        return ast.Constant(value + 1)
    if isinstance(value, str):
        return ast.Constant(value + "~")
    if isinstance(value, bytes):
        return ast.Constant(value + b"~")
    return ast.Constant(0) if value is None else None
