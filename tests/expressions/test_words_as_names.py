"""Spark reserves no word that the parser knows: in a condition each word may name a column."""

from __future__ import annotations

import logging

import pytest
from sqlglot.dialects.spark import Spark

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.predicates import Expression, MayMatch, column_names, leaves
from iceberg_ops.expressions.scalars.terms import Call, Column
from iceberg_ops.expressions.where import parse_where

OPERATORS = {
    "and", "or", "not", "is", "in", "like", "ilike", "rlike", "regexp", "between", "div", "null", "true", "false", "case", "when",
    "then", "else", "end", "cast", "exists", "interval",
}  # fmt: skip
WORDS = sorted({word.lower() for text in Spark.Tokenizer.KEYWORDS for word in text.split() if word.isidentifier()} - OPERATORS)
FORMS = (
    "coalesce({}, 7) = 7",
    "coalesce(other, {}) = 7",
    "coalesce(other, {}, 3) = 7",
    "abs({}) = 1",
    "nvl({} * 2, 1) = 1",
    "if({} IS NULL, 1, 2) = 1",
    "other < {}",
    "other BETWEEN {} AND 3",
)


@pytest.mark.parametrize("form", FORMS)
def test_a_word_that_is_a_column_is_read_as_one_or_refused(form: str) -> None:
    logging.disable(logging.CRITICAL)  # the parser warns of words that it takes for commands
    try:
        wrong = [word for word in WORDS if not _reads(word, form.format(word))]
    finally:
        logging.disable(logging.NOTSET)
    assert wrong == []


def _reads(word: str, text: str) -> bool:
    try:
        found = parse_where(text)
    except WhereError:
        return True
    return word in column_names(found) or not all(isinstance(leaf, MayMatch) and _is_evaluated(leaf) for leaf in leaves(found))


def _is_evaluated(leaf: MayMatch) -> bool:
    pending = [leaf.value]
    while pending:
        term = pending.pop()
        if isinstance(term, Call):
            pending += term.arguments
        elif type(term).__name__ == "Refused":
            return False
    return True


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("coalesce(all, 0) = 0", {"all"}),
        ("length(ALL s) = 1", {"s"}),
        ("abs(all % 2) = 1", {"all"}),
        ("concat(all.x, s) = 'a'", {"all.x", "s"}),
        ("a IN (all, 1)", {"a", "all"}),
        ("(all = 1)", {"all"}),
        ("s LIKE ALL ('a%', '%b')", {"s"}),
    ],
)
def test_all_is_a_column_where_a_value_stands(text: str, columns: set[str]) -> None:
    """``coalesce(all, 0) = 0`` was ``coalesce(0) = 0``, which is true for every row."""
    assert column_names(parse_where(text)) == columns


def test_all_before_a_later_argument_is_no_condition() -> None:
    with pytest.raises(WhereError, match="cannot parse"):
        parse_where("coalesce(a, ALL b) = 1")


def test_a_column_named_all_is_computed() -> None:
    found: Expression = parse_where("coalesce(all, 7) = 7")
    assert isinstance(found, MayMatch)
    assert found.value.arguments[0].arguments[0] == Column("all")
