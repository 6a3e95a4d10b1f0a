"""Filters as text, in SQL's syntax: `level = 'ERROR' and (day >= date '2021-04-01' or day is null)`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NoReturn

from iceberg_hms.errors import InvalidInput
from iceberg_hms.expressions.expression import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    DEPTH_MAX,
    Expression,
    Operator,
    Predicate,
    both,
    checked,
    either,
    negation,
)
from iceberg_hms.expressions.spelling import KEYWORDS, TYPED, read_pattern
from iceberg_hms.format.schema.transforms import Transform, parse_transform

#: The longest text, in characters.
LENGTH_MAX: Final = 100_000
#: The longest number, in characters.
_DIGITS_MAX: Final = 100

_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?(?![\w.]))
      | (?P<binary>[xX]'(?:[0-9A-Fa-f]{2})*')
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>(?:`(?:[^`]|``)+`|"(?:[^"]|"")+")(?:\.(?:`(?:[^`]|``)+`|"(?:[^"]|"")+"|\w+))*)
      | (?P<word>[^\W\d]\w*(?:\.(?:\w+|`(?:[^`]|``)+`|"(?:[^"]|"")+"))*)
      | (?P<symbol><=|>=|<>|!=|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)
_PART: Final = re.compile(r"`((?:[^`]|``)+)`|\"((?:[^\"]|\"\")+)\"|(\w+)")
_COMPARISONS: Final = {
    "=": Operator.EQ,
    "==": Operator.EQ,
    "<>": Operator.NOT_EQ,
    "!=": Operator.NOT_EQ,
    "<": Operator.LT,
    "<=": Operator.LT_EQ,
    ">": Operator.GT,
    ">=": Operator.GT_EQ,
}
#: The comparison with the sides exchanged.
_MIRRORED: Final = {
    Operator.LT: Operator.GT,
    Operator.LT_EQ: Operator.GT_EQ,
    Operator.GT: Operator.LT,
    Operator.GT_EQ: Operator.LT_EQ,
}


#: The transforms of columns that have a number, and the others with Spark's names beside the specification's.
_PARAMETRIC: Final = frozenset({"bucket", "truncate"})
_TRANSFORMS: Final = {
    **{name: name for name in (*_PARAMETRIC, "identity")},
    **{name: each for each in ("year", "month", "day", "hour") for name in (each, f"{each}s")},
}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int

    @property
    def word(self) -> str:
        """A bare word in lower case; else what stands there."""
        return self.text.lower() if self.kind == "word" else self.text


def parse(text: str) -> Expression:
    """The filter of a text.

    Columns are names, dotted for fields of structs, in backticks or double quotes where they are no plain words. Values
    are numbers, 'texts', X'bytes', true and false; dates, times, timestamps and UUIDs are texts with the word for their
    type before them. Without the word the column's type decides. A column may be within a transform: `bucket(4, id)`,
    `truncate(10, id)`, `year(t)`, `month(t)`, `day(t)`, `hour(t)`. Known are `= <> != < <= > >=`, `in`, `between`,
    `like` with one `%` at its end (a backslash before `%`, `_` or itself takes them as they are), `is null`, `is nan`,
    `not`, `and`, `or`, parentheses.

    Raises InvalidInput that names the position.
    """
    if not isinstance(text, str) or len(text) > LENGTH_MAX:
        raise InvalidInput(f"a filter is a text of at most {LENGTH_MAX} characters")
    parser = _Parser(text)
    found = parser.disjunction(0)
    parser.end()
    return found


def as_expression(where: Expression | str) -> Expression:
    """A filter that a caller gave as text or as an expression. Raises InvalidInput."""
    return parse(where) if isinstance(where, str) else checked(where)


@dataclass(frozen=True, slots=True)
class _Term:
    """A column, or a transform of one."""

    column: str
    transform: Transform | None = None

    def predicate(self, operator: Operator, *values: Any) -> Predicate:
        return Predicate(operator, self.column, values, self.transform)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0

    def disjunction(self, depth: int) -> Expression:
        found = self._conjunction(depth)
        while self._takes("or"):
            found = either(found, self._conjunction(depth))
        return found

    def end(self) -> None:
        if self._peek().kind != "end":
            self._fail("and, or, or the end")

    def _conjunction(self, depth: int) -> Expression:
        found = self._factor(depth)
        while self._takes("and"):
            found = both(found, self._factor(depth))
        return found

    def _factor(self, depth: int) -> Expression:
        if depth > DEPTH_MAX:
            raise InvalidInput(f"the filter is nested more than {DEPTH_MAX} deep")
        if self._takes("not"):
            return negation(self._factor(depth + 1))
        if self._takes("("):
            found = self.disjunction(depth + 1)
            self._require(")")
            return found
        return self._predicate()

    def _predicate(self) -> Expression:
        token = self._peek()
        if token.word in ("true", "false") and self._is_alone():
            self._next += 1
            return ALWAYS_TRUE if token.word == "true" else ALWAYS_FALSE
        if not self._is_column(token):
            value, operator = self._value(), self._comparison()
            return self._term().predicate(_MIRRORED.get(operator, operator), value)
        term = self._term()
        if self._takes("is"):
            return self._is(term)
        is_negated = self._takes("not")
        found = self._with_word(term)
        if found is None:
            if is_negated:
                self._fail("in, between or like")
            operator = self._comparison()
            found = term.predicate(operator, self._value())
        return negation(found) if is_negated else found

    def _is(self, term: _Term) -> Expression:
        is_negated = self._takes("not")
        if self._takes("null"):
            return term.predicate(Operator.NOT_NULL if is_negated else Operator.IS_NULL)
        self._require("nan")
        return term.predicate(Operator.NOT_NAN if is_negated else Operator.IS_NAN)

    def _with_word(self, term: _Term) -> Expression | None:
        if self._takes("in"):
            self._require("(")
            values = [self._value()]
            while self._takes(","):
                values.append(self._value())
            self._require(")")
            return term.predicate(Operator.IN, *values)
        if self._takes("between"):
            low = self._value()
            self._require("and")
            high = self._value()
            return both(term.predicate(Operator.GT_EQ, low), term.predicate(Operator.LT_EQ, high))
        if self._takes("like"):
            return self._like(term)
        return None

    def _like(self, term: _Term) -> Expression:
        token = self._peek()
        pattern = self._value()
        if not isinstance(pattern, str):
            self._fail("a text after like", token)
        found = read_pattern(pattern)
        if found is None:
            self._fail("a pattern with one % at its end", token)
        wanted, is_beginning = found
        return term.predicate(Operator.STARTS_WITH if is_beginning else Operator.EQ, wanted)

    def _comparison(self) -> Operator:
        token = self._peek()
        if token.text not in _COMPARISONS:
            self._fail("a comparison")
        self._next += 1
        return _COMPARISONS[token.text]

    def _term(self) -> _Term:
        token = self._peek()
        name = _TRANSFORMS.get(token.word) if token.kind == "word" else None
        if name is None or self._tokens[self._next + 1].text != "(":
            return _Term(self._column())
        self._next += 2
        if name in _PARAMETRIC:
            number = self._peek()
            if not number.text.isascii() or not number.text.isdigit():
                self._fail(f"the number of {name}", number)
            self._next += 1
            self._require(",")
            name = f"{name}[{number.text}]"
        column = self._column()
        self._require(")")
        return _Term(column, parse_transform(name))

    def _column(self) -> str:
        token = self._peek()
        if not self._is_column(token):
            self._fail("a column")
        self._next += 1
        parts = []
        for backticked, quoted, bare in _PART.findall(token.text):
            parts.append(backticked.replace("``", "`") or quoted.replace('""', '"') or bare)
        return ".".join(parts)

    def _value(self) -> Any:
        token = self._peek()
        following = self._tokens[self._next + 1] if token.kind != "end" else token
        if token.word in TYPED and following.kind == "string":
            self._next += 2
            return self._typed(token, _text(following))
        self._next += 1
        match token.kind:
            case "number":
                return _number(token.text)
            case "string":
                return _text(token)
            case "binary":
                return bytes.fromhex(token.text[2:-1])
        if token.word in ("true", "false"):
            return token.word == "true"
        if token.word == "null":
            what = f"nothing equals null, at character {token.at + 1} of the filter"
            raise InvalidInput(what, next_step="use is null or is not null")
        return self._fail("a value", token)

    def _typed(self, word: _Token, text: str) -> Any:
        try:
            return TYPED[word.word](text)
        except ValueError as error:
            what = f"{text[:40]!r} is no {word.word}, at character {word.at + 1} of the filter: {error}"
            raise InvalidInput(what) from error

    def _is_column(self, token: _Token) -> bool:
        if token.kind == "quoted":
            return True
        if token.kind != "word" or token.word in KEYWORDS:
            return False
        return token.word not in TYPED or self._tokens[self._next + 1].kind != "string"

    def _is_alone(self) -> bool:
        """Whether no comparison follows the next token."""
        return self._tokens[self._next + 1].text not in _COMPARISONS

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _takes(self, word: str) -> bool:
        if self._peek().word != word or self._peek().kind in ("string", "quoted", "end"):
            return False
        self._next += 1
        return True

    def _require(self, word: str) -> None:
        if not self._takes(word):
            self._fail(word)

    def _fail(self, expected: str, token: _Token | None = None) -> NoReturn:
        token = token or self._peek()
        found = "the end" if token.kind == "end" else repr(token.text[:40])
        raise InvalidInput(f"expected {expected} at character {token.at + 1} of the filter, found {found}")


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while at < len(text.rstrip()):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            start = at + len(text[at:]) - len(text[at:].lstrip())
            raise InvalidInput(f"cannot read the filter at character {start + 1}: {text[start : start + 40]!r}")
        found.append(_Token(match.lastgroup, match.group(match.lastgroup), match.start(match.lastgroup)))
        at = match.end()
    return [*found, _Token("end", "", len(text))]


def _text(token: _Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _number(text: str) -> int | float | Decimal:
    """A whole number, a decimal, or with an exponent a float, as in SQL."""
    if len(text) > _DIGITS_MAX:
        raise InvalidInput(f"a number of the filter has more than {_DIGITS_MAX} characters")
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)
