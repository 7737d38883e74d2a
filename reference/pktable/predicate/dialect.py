"""Spark's SQL as sqlglot reads it, where a word that is missing is an error.

sqlglot translates what databases of many kinds accept, and reads ``BETWEEN 1 2`` as if it had its AND. A condition that
deletes rows is to say what it means.

Clauses: STM-13.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sqlglot import TokenType, exp
from sqlglot.dialects.spark import Spark

MOST_ARGUMENTS: Final = {exp.DateDiff: 3, exp.Mod: 2, exp.TsOrDsAdd: 2}
"""sqlglot leaves out the arguments of these functions beyond this number, without an error."""


class Spark4(Spark):  # type: ignore[misc]
    """Spark since 4.0: a doubled quote inside quotes is a quote."""

    class Tokenizer(Spark.Tokenizer):  # type: ignore[misc]
        STRING_ESCAPES = ("'", '"', "\\")

    class Generator(Spark.Generator):  # type: ignore[misc]
        """Writes TIME as it is."""

        TYPE_MAPPING: ClassVar = {**Spark.Generator.TYPE_MAPPING, exp.DataType.Type.TIME: "TIME"}

    class Parser(Spark.Parser):  # type: ignore[misc]
        """Expects AND, WHEN and THEN, a value on both sides of each comma, and no argument too many.

        Clauses: STM-13.
        """

        def validate_expression(self, expression: Any, args: Any = None) -> Any:
            if args and len(args) > MOST_ARGUMENTS.get(type(expression), len(args)):
                self.raise_error(f"Expected at most {MOST_ARGUMENTS[type(expression)]} arguments")
            return super().validate_expression(expression, args)

        def _parse_csv(self, parse_method: Any, sep: TokenType = TokenType.COMMA) -> Any:
            count = 0

            def parsed() -> Any:
                nonlocal count
                found = parse_method()
                count += 1
                if found is None and (count > 1 or self._match(sep, advance=False)):
                    self.raise_error("Expected a value on both sides of the comma")
                return found

            return super()._parse_csv(parsed, sep)

        def _parse_between(self, this: Any) -> Any:
            if self._match_text_seq("SYMMETRIC"):
                self.raise_error("BETWEEN symmetric is not supported")
            low = self._parse_bitwise()
            self._expect(TokenType.AND)
            high = self._parse_bitwise()
            return self._whole(exp.Between(this=this, low=low, high=high), "low", "high")

        def _parse_case(self) -> Any:
            operand, ifs = self._parse_disjunction(), []
            while self._match(TokenType.WHEN):
                holds = self._parse_disjunction()
                self._expect(TokenType.THEN)
                ifs.append(self._whole(exp.If(this=holds, true=self._parse_disjunction()), "this", "true"))
            if not ifs:
                self._expect(TokenType.WHEN)
            found = exp.Case(this=operand, ifs=ifs)
            if self._match(TokenType.ELSE):
                found.set("default", self._parse_disjunction())
                self._whole(found, "default")
            self._expect(TokenType.END)
            return found

        def _parse_if(self) -> Any:
            if self._match(TokenType.L_PAREN, advance=False):
                return super()._parse_if()
            self._retreat(self._index - 1)  # a name, as Spark has no other IF
            return None

        def _expect(self, word: TokenType) -> None:
            if not self._match(word):
                self.raise_error(f"Expected {word.name}")

        def _whole(self, node: Any, *needed: str) -> Any:
            if any(node.args.get(name) is None for name in needed):
                self.raise_error("Expected a value")
            return node


SPARK: Final = Spark4()
