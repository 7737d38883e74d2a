"""Evaluate conditions and values on the rows of a table, each part on the rows for which SQL evaluates it.

A part that can fail is evaluated only for the rows that the conditions before it leave open. A value of CASE or
coalesce is evaluated only for those that take it. There a failure raises. Arrow itself would compute all parts of all
rows.

Clauses: RD-6, STM-16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pktable_spec.errors import InvalidRequestError

from pktable.format.types import to_arrow as arrow_type
from pktable.predicate.arrow_eval import expression_of, may_fail
from pktable.predicate.tree import BOOLEAN, And, Call, Column, Expression, Or, conjuncts, rewritten, walk

LIVE: Final = "__pktable_live"
TAKEN: Final = "__pktable_taken_"
MOST_PARTS: Final = 256


def filtered(
    root: Expression,
    table: pa.Table,
    what: str,
    live: npt.NDArray[np.bool_] | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the rows of ``table``, in order, that are ``live`` and for which ``root`` is true.

    ``columns``: those to return, all if None; at least one. A condition that may fail is evaluated only for the live
    rows that the conditions before it keep. Raises InvalidRequestError, which calls the condition ``what``, if it fails
    for one of them.
    """
    columns = table.column_names if columns is None else columns
    tests = [(one, may_fail(one)) for one in conjuncts(root)]
    if live is not None:
        tests.insert(0, (Column(LIVE, BOOLEAN), False))
        table = table.append_column(LIVE, pa.array(live))
    groups = list(_guarded(tests))
    try:
        for group in groups:
            holds = projected([group[0] if len(group) == 1 else And(tuple(group))], table)[0]
            if group is groups[-1]:
                table = table.select(columns)
            # Taking rows by number is faster than any filter, and the condition need not read the taken columns.
            table = table.take(pc.indices_nonzero(holds))
    except pa.ArrowInvalid as error:
        raise InvalidRequestError(f"{what}: {str(error).partition(chr(10))[0]}") from None
    return table


def evaluated(values: Mapping[str, Expression], rows: pa.Table, what: Callable[[str], str]) -> pa.Table:
    """Return a table of ``values``, name by name, row for row. A bare column is returned as it is, in its own type.

    Raises InvalidRequestError if an expression fails for a row. ``what`` says how messages call the value of a name.
    """
    computed = {name: value for name, value in values.items() if not isinstance(value, Column)}
    found = {name: rows.column(value.name) for name, value in values.items() if isinstance(value, Column)}
    if computed:
        try:
            made = projected(list(computed.values()), rows)
        except pa.ArrowInvalid as error:
            for name, value in computed.items() if len(computed) > 1 else ():
                evaluated({name: value}, rows, what)  # only by itself it tells which one fails
            problem = str(error).partition(chr(10))[0]
            raise InvalidRequestError(f"{what(next(iter(computed)))}: {problem}") from None
        found |= dict(zip(computed, made, strict=True))
    return pa.table({name: found[name] for name in values})


def _guarded(tests: Iterable[tuple[Expression, bool]]) -> Iterator[list[Expression]]:
    """Yield the conditions of ``tests`` (condition, may fail) in groups in which only the first may fail."""
    group: list[Expression] = []
    for condition, fails in tests:
        if group and fails:
            yield group
            group = []
        group.append(condition)
    yield group


def projected(values: Sequence[Expression], rows: pa.Table) -> list[pa.ChunkedArray]:
    """Return each of ``values``, row for row. Raises pyarrow.ArrowInvalid if one fails for a row that takes it."""
    from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions  # it imports pandas

    needed = dict.fromkeys(part.name for one in values for part in walk(one) if isinstance(part, Column))
    rows = rows.select(list(needed)) if needed else pa.table({LIVE: pa.nulls(rows.num_rows)})
    made: dict[str, pa.ChunkedArray] = {}

    def in_turn(part: Expression) -> Column | None:
        if isinstance(part, And | Or) and any(map(may_fail, part.operands[1:])):
            column = _of_logic(part, rows)
        elif isinstance(part, And | Or) and len(part.operands) > MOST_PARTS:
            column = _of_many(part, rows)
        elif isinstance(part, Call) and part.function in ("case", "coalesce") and may_fail(part):
            column = _taken(part, rows)
        else:
            return None
        name = f"{TAKEN}{len(made)}"
        made[name] = column
        return Column(name, part.type)

    roots = [rewritten(one, lambda column: column, in_turn) for one in values]
    for name, column in made.items():
        rows = rows.append_column(name, column)
    plan = [
        Declaration("table_source", TableSourceNodeOptions(rows)),
        Declaration("project", ProjectNodeOptions([expression_of(one, rows.schema) for one in roots])),
    ]
    found: list[pa.ChunkedArray] = Declaration.from_sequence(plan).to_table(use_threads=False).columns
    return found


def _of_logic(part: And | Or, rows: pa.Table) -> pa.ChunkedArray:
    """Return AND or OR, of which each part is computed of the rows that those before it do not decide."""
    decides, combined = (False, pc.and_kleene) if isinstance(part, And) else (True, pc.or_kleene)
    found = projected(part.operands[:1], rows)[0]
    for one in part.operands[1:]:
        decided = np.asarray(pc.equal(found, decides).fill_null(False), dtype=bool)
        rest = np.flatnonzero(~decided)
        value = projected([one], rows.take(pa.array(rest)))[0]
        place = np.zeros(len(decided), np.int64)
        place[rest] = np.arange(len(rest))
        found = combined(found, value.take(pa.array(place, mask=decided)))
    return found


def _of_many(part: And | Or, rows: pa.Table) -> pa.ChunkedArray:
    """Return AND or OR of many parts, some at a time: of thousands at once Arrow ends the process. Clauses: WH-33."""
    combined = pc.and_kleene if isinstance(part, And) else pc.or_kleene
    pieces = range(0, len(part.operands), MOST_PARTS)
    found = (projected([type(part)(part.operands[i : i + MOST_PARTS])], rows)[0] for i in pieces)
    return reduce(combined, found)


def _taken(call: Call, rows: pa.Table) -> pa.ChunkedArray:
    """Return a CASE or coalesce, of which each part is computed of the rows that come to it. Clauses: STM-16."""
    chosen = _of_case(call, rows) if call.function == "case" else _of_coalesce(call, rows)
    wanted, places, values = arrow_type(call.type), [], []
    for at, value in chosen:
        places.append(at)
        values += [chunk.cast(wanted) for chunk in value.chunks]
    order = np.argsort(np.concatenate(places)) if places else np.empty(0, np.int64)
    return pa.chunked_array(values, wanted).take(pa.array(order))


Places: TypeAlias = npt.NDArray[np.int64]


def _of_case(call: Call, rows: pa.Table) -> Iterator[tuple[Places, pa.ChunkedArray]]:
    """Yield the values of a CASE, each with the numbers of its rows."""
    *pairs, last = call.arguments
    rest = np.arange(rows.num_rows)
    for condition, value in zip(pairs[::2], pairs[1::2], strict=True):
        held = projected([condition], rows.take(pa.array(rest)))[0]
        holds = np.asarray(held.fill_null(False), dtype=bool)
        if holds.any():
            yield rest[holds], projected([value], rows.take(pa.array(rest[holds])))[0]
        rest = rest[~holds]
        if not len(rest):
            return
    yield rest, projected([last], rows.take(pa.array(rest)))[0]


def _of_coalesce(call: Call, rows: pa.Table) -> Iterator[tuple[Places, pa.ChunkedArray]]:
    """Yield the values of a coalesce, each with the numbers of its rows."""
    rest = np.arange(rows.num_rows)
    for i, one in enumerate(call.arguments, 1):
        value = projected([one], rows.take(pa.array(rest)))[0]
        present = np.asarray(value.is_valid(), dtype=bool) | (i == len(call.arguments))
        yield rest[present], value.filter(pa.array(present))
        rest = rest[~present]
        if not len(rest):
            return
