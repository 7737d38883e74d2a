"""Translate a query from Spark's SQL to DuckDB's, with all names resolved and all types written out.

Nothing is left for DuckDB to decide: `expressions` resolves what is computed, as conditions are resolved. A clause or
a function that is not known here is refused, as DuckDB might mean something else by it.

Clauses: WH-28.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

from pktable_spec.errors import InvalidRequestError
from sqlglot import exp

from pktable.format.types import FLOATS, NESTED, DataType
from pktable.predicate.dialect import SPARK
from pktable.predicate.duckdb_sql import duckdb_text, grouped, join_text
from pktable.predicate.resolver import Node, quoted
from pktable.predicate.scope import Scope
from pktable.predicate.tree import Column, Compare, Expression, rewritten, walk
from pktable.sql.expressions import AGGREGATES, Query, QueryResolver, bare, of_one_type
from pktable.sql.relations import Relation, Relations, Typed

SET_OPERATIONS: Final = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
SIDES: Final = {"": "", "INNER": "", "LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "FULL"}
KINDS: Final = {"": "", "INNER": "", "OUTER": "", "CROSS": "", "SEMI": "SEMI", "ANTI": "ANTI"}
CLAUSES: Final = {"laterals": "LATERAL VIEW", "sample": "TABLESAMPLE", "windows": "WINDOW", "sort": "SORT BY"}
"""What the arguments of sqlglot's nodes are called in SQL, where that is another word."""
OF_SELECT: Final = frozenset(
    {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "distinct",
        "with_",
    }
)
OF_SET: Final = frozenset({"this", "expression", "distinct", "order", "limit", "offset", "with_"})
OF_VALUES: Final = frozenset({"expressions", "alias", "order", "limit", "offset", "with_"})
OF_SUBQUERY: Final = frozenset({"this", "alias", "order", "limit", "offset", "with_"})
OF_JOIN: Final = frozenset({"this", "side", "kind", "method", "on", "using"})


@dataclass(frozen=True)
class Item:
    """A part of SELECT: its name, its value, and the node it was written as; None of a column that ``*`` means."""

    name: str
    value: Expression
    node: Node | None


@dataclass
class Translation:
    """A query in the making. ``tables``: what a name in the text stands for, by that name in small letters."""

    tables: Mapping[str, Relation]
    numbers: Iterator[int] = field(default_factory=count)

    def query(self, node: Node) -> Query:
        """Return a query in SQL of DuckDB. Raises InvalidRequestError for what is not known here. Clauses: WH-28."""
        return self._query(node, None, {})

    def _query(self, node: Node, outer: Scope | None, known: Mapping[str, Query]) -> Query:
        known = self._with(node, outer, known)
        if isinstance(node, exp.Subquery):
            self._expect_only(node, OF_SUBQUERY)
            return self._modified(node, self._query(node.this, outer, known))
        if type(node) in SET_OPERATIONS:
            return self._modified(node, self._set_operation(node, outer, known))
        if isinstance(node, exp.Select):
            return self._select(node, outer, known)
        if isinstance(node, exp.Values):
            self._expect_only(node, OF_VALUES)
            return self._modified(node, self._values(node))
        raise _problem(node, "this kind of query is not supported here")

    def _with(self, node: Node, outer: Scope | None, known: Mapping[str, Query]) -> Mapping[str, Query]:
        clause = node.args.get("with_")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            raise _problem(clause, "RECURSIVE is not supported here")
        found = dict(known)
        for one in clause.expressions:
            if sum(other.alias.lower() == one.alias.lower() for other in clause.expressions) > 1:
                raise _problem(clause, f"{one.alias} is the name of two queries of WITH")
            query = self._query(one.this, outer, found)
            found[one.alias.lower()] = _renamed(query, one.args["alias"])
        return found

    def _set_operation(self, node: Node, outer: Scope | None, known: Mapping[str, Query]) -> Query:
        self._expect_only(node, OF_SET)
        if isinstance(node, exp.Intersect) and isinstance(node.this, exp.Union | exp.Except):
            # So reads an sqlglot that does not know that INTERSECT goes before UNION.
            raise _problem(node, "INTERSECT next to UNION or EXCEPT needs parentheses around it here")
        left, right = of_one_type(
            self._query(node.this, outer, known), self._query(node.expression, outer, known)
        )
        word = SET_OPERATIONS[type(node)] + ("" if node.args.get("distinct") else " ALL")
        if word != "UNION ALL":  # Spark finds equal rows by grouping them
            _expect_comparable(left.columns)
            left, right = _grouped(left), _grouped(right)
        return Query(f"({left.text}) {word} ({right.text})", left.columns)

    def _modified(self, node: Node, query: Query) -> Query:
        """Return a query whose rows are put in order and cut, as ``node`` says."""
        order, cut = node.args.get("order"), self._cut(node)
        if order is None and not cut:
            return query
        relation = Relation("", f"r{next(self.numbers)}", query.columns)
        text = f"SELECT * FROM ({query.text}) AS {relation.text}"
        if order is not None:
            scope = Relations.around(None)
            scope.add(relation)
            resolver = self._resolver(scope, {})

            def place(node: Node) -> str:
                position = _position(node, query.columns)
                return duckdb_text(resolver.comparable(node)) if position is None else str(position)

            text += f" ORDER BY {', '.join(resolver.ordered(one, place) for one in order.expressions)}"
        return Query(text + cut, query.columns)

    def _cut(self, node: Node) -> str:
        found = ""
        for name in ("limit", "offset"):
            clause = node.args.get(name)
            if clause is None:
                continue
            self._expect_only(clause, frozenset({"expression"}))
            value = clause.args.get("expression")
            if not _is_number(value):
                raise _problem(clause, "expected a number of rows as a literal")
            found += f" {name.upper()} {value.name}"
        return found

    def _values(self, node: Node) -> Query:
        resolver = self._resolver(Relations.around(None), {})
        rows = [
            [resolver.expression(one) for one in (row.expressions if isinstance(row, exp.Tuple) else [row])]
            for row in node.expressions
        ]
        if len({len(row) for row in rows}) != 1:
            raise _problem(node, "expected rows of as many values")
        columns = [resolver.of_one_kind(list(column), node) for column in zip(*rows, strict=True)]
        texts = [f"({', '.join(map(duckdb_text, row))})" for row in zip(*columns, strict=True)]
        names = [f"c{i}" for i in range(len(columns))]
        text = f"SELECT * FROM (VALUES {', '.join(texts)}) AS r{next(self.numbers)}({', '.join(names)})"
        found = Query(text, [(f"col{i + 1}", column[0].type) for i, column in enumerate(columns)])
        return _renamed(found, node.args.get("alias"))

    # SELECT

    def _select(self, node: Node, outer: Scope | None, known: Mapping[str, Query]) -> Query:
        self._expect_only(node, OF_SELECT)
        scope = Relations.around(outer)
        from_ = self._from(node, scope, known)
        resolver = self._resolver(scope, known)
        items = list(self._items(node, scope, resolver))
        if not items:
            raise _problem(node, "expected columns after SELECT")
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on"):
            raise _problem(node, "DISTINCT ON is not supported here")
        if distinct is not None:
            _expect_comparable([(item.name, item.value.type) for item in items])
        keys = self._keys(node, items, resolver)
        values = [_of_group(item.value, keys) for item in items]
        values = values if distinct is None else list(map(grouped, values))
        listed = ", ".join(f"{duckdb_text(value)} AS c{i}" for i, value in enumerate(values))
        text = f"SELECT {'DISTINCT ' if distinct is not None else ''}{listed}{from_}"
        if node.args.get("where"):
            text += f" WHERE {resolver.clause(node.args['where'].this)}"
        text += f" GROUP BY {', '.join(map(duckdb_text, keys))}" if keys else ""
        if node.args.get("having"):
            text += f" HAVING {self._of_items(items, resolver, keys).clause(node.args['having'].this)}"
        if node.args.get("order"):
            text += f" ORDER BY {', '.join(self._order(node, items, resolver))}"
        return Query(text + self._cut(node), [(item.name, item.value.type) for item in items])

    def _items(self, node: Node, scope: Relations, resolver: QueryResolver) -> Iterator[Item]:
        for one in node.expressions:
            star = one.this if isinstance(one, exp.Column) else one
            if isinstance(star, exp.Star):
                if any(star.args.values()):
                    raise _problem(one, "* with EXCEPT or another word is not supported here")
                if isinstance(one, exp.Column) and one.args.get("db"):
                    raise _problem(one, "expected the name or the alias of one table before .*")
                found = list(scope.star(one.table if isinstance(one, exp.Column) else ""))
                if not found:
                    raise _problem(one, "there are no columns of that")
                for name, (text, kind) in found:
                    yield Item(name, Column(text, kind), None)
                continue
            inner = one.this if isinstance(one, exp.Alias) else one
            name = one.alias if isinstance(one, exp.Alias) else _own_name(inner)
            yield Item(name, resolver.output(inner), inner)

    def _keys(self, node: Node, items: Sequence[Item], resolver: QueryResolver) -> list[Expression]:
        """Return what the rows are grouped by."""
        clause = node.args.get("group")
        if clause is None:
            return []
        every = clause.args.get("all")
        self._expect_only(clause, frozenset({"expressions", "all"}))
        found = []
        if not clause.expressions and not every:
            raise _problem(node, "expected values after GROUP BY")
        for one in map(bare, clause.expressions):
            if (position := _position(one, items)) is not None:
                item = items[position - 1]
            elif isinstance(one, exp.Column) and not resolver.scope.find(one.table, one.name):
                item = _named(one, items) or Item("", resolver.expression(one), one)
            else:
                item = Item("", resolver.expression(one), one)
            found.append(item.value)
        if every:
            found = [item.value for item in items if not _has_aggregate(item.node)]
        for value in found:
            if value.type.root in NESTED:
                raise InvalidRequestError(f"sql: GROUP BY: rows cannot be compared by {value.type} here")
        return found

    def _order(self, node: Node, items: Sequence[Item], resolver: QueryResolver) -> list[str]:
        distinct, clause = node.args.get("distinct"), node.args["order"]
        inside = self._of_items(items, resolver)

        def place(node: Node) -> str:
            number = _position(node, items)
            if number is None:
                text = duckdb_text(inside.comparable(node))
                same = [i for i, item in enumerate(items) if duckdb_text(item.value) == text]
                if not same and distinct:
                    raise _problem(node, "with DISTINCT, expected a column of SELECT in ORDER BY")
                if not same:
                    return text
                number = same[0] + 1
            if items[number - 1].value.type.root in NESTED:
                raise _problem(node, "rows cannot be put in order by it here")
            return str(number)

        return [resolver.ordered(one, place) for one in clause.expressions]

    def _of_items(
        self, items: Sequence[Item], resolver: QueryResolver, keys: Sequence[Expression] | None = None
    ) -> QueryResolver:
        """Return a resolver that knows the names of SELECT, too. ``keys``: of HAVING, what it groups by."""
        assert isinstance(resolver.scope, Relations)
        return QueryResolver(resolver.at, _OfItems.over(resolver.scope, items, keys), resolver.inner)

    # FROM

    def _from(self, node: Node, scope: Relations, known: Mapping[str, Query]) -> str:
        clause = node.args.get("from_")
        if clause is None:
            if node.args.get("joins"):
                raise _problem(node, "expected FROM")
            return ""
        text = f" FROM {self._relation(clause.this, scope, known)}"
        for join in node.args.get("joins") or ():
            text += self._join(join, scope, known)
        return text

    def _join(self, join: Node, scope: Relations, known: Mapping[str, Query]) -> str:
        self._expect_only(join, OF_JOIN)
        side, kind = (str(join.args.get(name) or "").upper() for name in ("side", "kind"))
        if (
            side not in SIDES
            or kind not in KINDS
            or str(join.args.get("method") or "") not in ("", "NATURAL")
        ):
            raise _problem(join, "this kind of join is not supported here")
        if (kind == "OUTER" and not SIDES[side]) or (KINDS[kind] and side not in ("", "LEFT")):
            raise _problem(join, "there is no such join")
        before = Relations(dict(scope.tables), list(scope.relations), dict(scope.merged), scope.outer)
        relation = self._relation(join.this, scope, known)
        right = scope.relations[-1]
        if join.args.get("method"):
            names = [name for name, _ in before.star() if right.numbers(name)]
            using = [exp.to_identifier(name, quoted=True) for name in names]
        else:
            using = list(join.args.get("using") or ())
        conditions = []
        if join.args.get("on"):
            resolver = self._resolver(scope, known)
            conditions.append(join_text(resolver.present(join.args["on"])))
        for one in using:
            conditions.append(self._merge(one.name, before, right, scope, side))
        words = " ".join(word for word in (SIDES[side], KINDS[kind]) if word)
        if KINDS[kind]:
            words = KINDS[kind]
            scope.relations.pop()
            scope.tables.pop(right.alias, None)  # type: ignore[attr-defined]
        if not conditions:
            if words:
                raise _problem(join, "expected ON or USING")
            return f" CROSS JOIN {relation}"
        return f" {words} JOIN {relation} ON {' AND '.join(conditions)}"

    def _merge(self, name: str, left: Relations, right: Relation, scope: Relations, side: str) -> str:
        """Make one column of two of a name, as USING does; return the condition that they are equal."""
        first, second = left.find("", name), [right.column(number) for number in right.numbers(name)]
        if len(first) != 1 or len(second) != 1:
            raise InvalidRequestError(f"sql: USING ({name}): expected one column of that name on each side")
        resolver = self._resolver(scope, {})
        a, b = resolver.in_one_type([Column(*first[0][1]), Column(*second[0])], exp.column(name, quoted=True))
        merged: Typed = first[0][1]
        if SIDES[side] == "RIGHT":
            merged = second[0]
        elif SIDES[side] == "FULL":
            merged = (f"coalesce({duckdb_text(a)}, {duckdb_text(b)})", a.type)
        scope.merged[name.lower()] = (first[0][0].rpartition(".")[2], merged)
        return duckdb_text(Compare("=", a, b))

    def _relation(self, node: Node, scope: Relations, known: Mapping[str, Query]) -> str:
        """Add a relation to the scope, and return it as SQL."""
        alias = node.alias
        text = f"r{next(self.numbers)}"
        if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Table):
            query = _renamed(self._query(node, None, known), node.args.get("alias"))
        elif isinstance(node, exp.Values):
            self._expect_only(node, frozenset({"expressions", "alias"}))
            query = self._values(node)
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._expect_only(node, frozenset({"this", "alias"}))
            name = node.name.lower()
            table = self.tables.get(name)
            if table is not None:
                columns = _names(table.columns, node.args.get("alias"))
                scope.add(Relation(alias, text, columns, table.named))
                return f"{table.text} AS {text}"
            if name not in known:
                raise _problem(node, "expected a table")
            query = _renamed(known[name], node.args.get("alias"))
            alias = alias or node.name
        else:
            function = (
                node.this.name if isinstance(node.this, exp.Anonymous) else type(node.this or node).__name__
            )
            raise InvalidRequestError(
                f"sql: {function.lower()}(…): no function in place of a table is supported here"
            )
        scope.add(Relation(alias, text, query.columns))
        return f"({query.text}) AS {text}"

    def _resolver(self, scope: Scope, known: Mapping[str, Query]) -> QueryResolver:
        return QueryResolver("sql", scope, lambda node, outer: self._query(node, outer, known))

    def _expect_only(self, node: Node, names: frozenset[str]) -> None:
        """Raise InvalidRequestError if a node says more than ``names``: a clause that is not known changes the rows."""
        for name, argument in node.args.items():
            if argument and name not in names:
                raise InvalidRequestError(
                    f"sql: {CLAUSES.get(name, name.strip('_').upper())} is not supported here"
                )


@dataclass(frozen=True)
class _OfItems(Relations):
    """The names of SELECT, and those of the tables, which it hides; except in HAVING those of ``keys``."""

    items: Sequence[Item] = ()
    keys: Sequence[Expression] | None = None

    @classmethod
    def over(cls, scope: Relations, items: Sequence[Item], keys: Sequence[Expression] | None) -> _OfItems:
        return cls(scope.tables, scope.relations, scope.merged, scope.outer, items, keys)

    def of_rows(self) -> Relations:
        return Relations(self.tables, self.relations, self.merged, self.outer)

    def find(self, table: str, name: str) -> list[tuple[str, Typed]]:
        own = [
            (item.name, (duckdb_text(item.value), item.value.type))
            for item in self.items
            if not table and item.name.lower() == name.lower()
        ]
        own = list(dict(own).items()) if len({text for _, (text, _) in own}) == 1 else own
        others = super().find(table, name)
        if not own or not others:
            return own or others
        named = {text for _, (text, _) in others}
        if len(own) > 1 or {text for _, (text, _) in own} == named:  # a name of two items is none of theirs
            return others
        if self.keys is None:
            return own
        if named & {duckdb_text(key) for key in self.keys}:
            return others
        # Spark takes a value for the key as which it is written, and any other name for that of SELECT.
        inside = any(
            isinstance(part, Column) and part.name in named for key in self.keys for part in walk(key)
        )
        return own + others if inside else own


def _grouped(query: Query) -> Query:
    """Return a query whose rows are as Spark groups them."""
    if not any(kind.root in FLOATS for _, kind in query.columns):
        return query
    values = [grouped(Column(f"c{i}", kind)) for i, (_, kind) in enumerate(query.columns)]
    listed = ", ".join(f"{duckdb_text(value)} AS c{i}" for i, value in enumerate(values))
    return replace(query, text=f"SELECT {listed} FROM ({query.text})")


def _expect_comparable(columns: Sequence[tuple[str, DataType]]) -> None:
    """Raise InvalidRequestError if rows cannot be compared by some of ``columns``."""
    for name, kind in columns:
        if kind.root in NESTED:
            raise InvalidRequestError(f"sql: rows cannot be compared by {name}, {kind}")


def _problem(node: Node, problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"sql: {quoted(node.sql(SPARK))}: {problem}")


def _own_name(node: Node) -> str:
    """Return the name of a column that has no alias: that of the column, also if cast, or the text of a value."""
    inner = bare(node)
    if isinstance(inner, exp.Cast):
        inner = bare(inner.this)
    if isinstance(inner, exp.Column):
        return str(inner.name)
    return str(node.sql(SPARK, normalize_functions="lower")).replace("count(*)", "count(1)")


def _is_number(node: Node) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and str(node.name).isdecimal()


def _position(node: Node, items: Sequence[Any]) -> int | None:
    """Return the position of a column that ORDER BY or GROUP BY names, None of another value.

    Raises InvalidRequestError for a position without a column.
    """
    inner = bare(node)
    if isinstance(inner, exp.Neg) and _is_number(bare(inner.this)):
        raise _problem(node, "expected a position of 1 or more")
    if not _is_number(inner):
        return None
    number = int(inner.name)
    if not 1 <= number <= len(items):
        raise InvalidRequestError(
            f"sql: position {number}: expected one of the {len(items)} columns of SELECT"
        )
    return number


def _named(node: Node, items: Sequence[Item]) -> Item | None:
    same = [item for item in items if not node.table and item.name.lower() == node.name.lower()]
    return same[0] if len(same) == 1 else None


def _of_group(value: Expression, keys: Sequence[Expression]) -> Expression:
    """Return a value of a group, in which each of the ``keys`` is as the group has it."""
    texts = {duckdb_text(key) for key in keys if key.type.root in FLOATS}

    def known(part: Expression) -> Expression | None:
        return grouped(part) if part.type.root in FLOATS and duckdb_text(part) in texts else None

    return rewritten(value, lambda column: known(column) or column, known) if texts else value


def _has_aggregate(node: Node | None) -> bool:
    return node is not None and any(True for _ in node.find_all(*AGGREGATES))


def _names(columns: Sequence[tuple[str, DataType]], alias: Node | None) -> Sequence[tuple[str, DataType]]:
    """Return columns with the names that an alias gives them."""
    names = [] if alias is None else [one.name for one in alias.args.get("columns") or ()]
    if not names:
        return columns
    if len(names) != len(columns):
        raise InvalidRequestError(
            f"sql: ({', '.join(names)}): expected {len(columns)} names of columns, found {len(names)}"
        )
    return [(name, kind) for name, (_, kind) in zip(names, columns, strict=True)]


def _renamed(query: Query, alias: Node | None) -> Query:
    return Query(query.text, _names(query.columns, alias))
