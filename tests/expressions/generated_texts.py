"""Generates texts that SQL casts to numbers, dates and booleans: valid forms, near misses, and broken ones.

``TextForms.draw`` returns a text and the name of its form. Every form has valid and invalid texts; a text may be padded with blanks
of every kind, and one character of it may be changed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

BLANKS = (
    " ", "  ", "\t", "\n", "\r", "\x00", "\x0b", "\x0c", "\x1c", "\x1f", "\x7f", "\x80", "\x85", "\xa0", "\u1680", "\u2000",
    "\u2003", "\u2007", "\u2028", "\u202f", "\u205f", "\u3000", "\u200b", "\u180e", "\ufeff", "\ud7ff",
)  # fmt: skip
"""Spaces and control characters, of ASCII and beyond."""
DIGITS = ("\u0663", "\uff17", "\u0966", "\U0001d7cf", "\xb2", "\xbd", "\u2167", "\u0c66")
"""Digits and numbers of other scripts."""
ODD = (
    *BLANKS, *DIGITS, "", "+", "-", ".", "e", "E", "_", ",", "x", "d", "f", "L", "\u2212", "'", "T", "Z", ":", "/", "\u0301",
    "\U0001f600",
)  # fmt: skip
SPECIAL = ("inf", "infinity", "nan", "infinit", "nane", "\u221e", "null", "in", "1inf", "infd", "nanf", "nan0", "infinity0")
HEXADECIMAL = (
    "0x1p3", "0x1.8p1", "0X1P-2", "0x.8p0d", "0x1", "0x1p", "-0x1p3f", "0x1.fffffffffffff8p0", "0xap0", "0x1p1024", "0x1p-1080",
    "-0x1p9999999999", "0x0p9999999999", "0x1.000001p0", "0x1.0000030p0", "0x.p1", "0x1.p1",
)  # fmt: skip
DATE_WORDS = (
    "epoch", "now", "today", "tomorrow", "yesterday", "EPOCH", "epoch 12:00", "now()", "current_date", "-infinity", "epoch UTC",
)  # fmt: skip
TRUTHS = (
    "t", "true", "y", "yes", "1", "f", "false", "n", "no", "0", "on", "off", "tru", "2", "01", "-1", "1.0", "yess", "\uff54rue",
)  # fmt: skip
LIMITS = (127, 128, 32767, 32768, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 10**38 - 1, 10**38, 10**9 - 1, 10**5, 2**53 + 1, 2**24 + 1)
EXPONENTS = (
    "e3", "E3", "e+3", "e-3", "e0", "e05", "e-0", "e308", "e309", "e-324", "e-325", "e38", "e39", "e-45", "e-46", "e", "e+", "e1.5",
    "e2147483647", "e2147483648", "e-2147483648", "e99999999999", "e-99999999999", "e\uff13", "e 3", "e37", "e-10", "e400", "e-400",
    "e00000000000003", "e-00000000000003",
)  # fmt: skip
ENDS = ("", "", "", "", "d", "f", "D", "F", "l", "L", "BD", "dd", "df", "f ", " d", ".", "m", "%", "-", "+", "e")
YEARS = (0, 1, 4, 99, 1582, 1900, 1970, 2000, 2020, 9999, 10000, 29999, 294247, 5881580, 5881581, 9999999, 10**7, 10**9, 10**10)
BEHIND_DATES = (
    "T", " ", "T00:00:00", " 12:30", "T25:00", " x", "Tx", "Z", "x", "-1", "-", " T", "+01:00", "T12:30:00Z", "\t1", "\n", "t1",
    "\xa0", "T1", " 1:2:3", "T12:30:00.123456789", " 12:30:00+25:00", "T\n", "  ", "\uff34", "BC", " BC", " AD", "T\x00", "\x00",
)  # fmt: skip
ZONES = (
    "", "", "", "Z", "z", "+01:00", "-1", "+1:5", "+0100", "+18:00", "+18:01", "-19", " UTC", "UTC+1", " GMT-2:00", " Europe/Paris",
    "+01:02:03", "+010203", "+1:02:03", " z", "UT", " UT+3", "  +01:00", "+01:60", "+1:00", " Asia/Nowhere", "GMT0", " UTC ", "+24",
    "+", "-00:00", "+00:00:01", "+1:2:3", "+123", "Zulu", " Etc/GMT+5", " utc", " gmt+1", "UTC+01:02:03",
)  # fmt: skip


class TextForms:
    """``counts`` says how often each form was drawn."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.counts: Counter[str] = Counter()

    def draw(self) -> tuple[str, str]:
        """A text, and its form."""
        name, form = self.rng.choice(_FORMS)
        text = form(self.rng)
        if self.rng.random() < 0.25:
            name, text = f"padded {name}", _padded(self.rng, text)
        if self.rng.random() < 0.2:
            name, text = f"changed {name}", _changed(self.rng, text)
        self.counts[name] += 1
        return text, name


def _padded(rng: random.Random, text: str) -> str:
    before, after = (rng.choice(("", rng.choice(BLANKS), rng.choice(BLANKS[:7]) + rng.choice(BLANKS))) for _ in range(2))
    return before + text + after


def _changed(rng: random.Random, text: str) -> str:
    """With one character more, less, or another."""
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(ODD) + text[at + rng.choice((0, 1)) :]


def _sign(rng: random.Random) -> str:
    return rng.choice(("", "", "", "+", "-", "-", "--", "+-", "- "))


def _digits(rng: random.Random) -> str:
    length = rng.choice((1, 1, 2, 3, 5, 8, 10, 15, 16, 17, 18, 19, 20, 37, 38, 39, 40, 80, 400))
    digits = "".join(rng.choice("0123456789") for _ in range(length))
    zeros = "0" * rng.choice((1, 3, 40))
    return rng.choice((digits, digits, zeros + digits, digits[0] + "9" * (length - 1), "1" + "0" * (length - 1)))


def _whole(rng: random.Random) -> str:
    if rng.random() < 0.4:
        return _sign(rng) + str(rng.choice(LIMITS) + rng.choice((0, 0, 1, -1)))
    return _sign(rng) + _digits(rng)


def _fraction(rng: random.Random) -> str:
    """``1.5``, ``.5``, ``5.``, and halves where a decimal is rounded."""
    half = rng.choice(("5", "50", "49", "4" + "9" * 20, "4999", "51", "5" + "0" * 20 + "1", "9" * 39, "0" * 40, "4" + "9" * 2500))
    small = "0" * rng.choice((1, 7, 37, 38, 39)) + rng.choice("159")
    fraction = rng.choice(("", _digits(rng), _digits(rng)[:2] + half, half, small))
    return f"{_sign(rng)}{rng.choice(('', '0', '1', _digits(rng), str(rng.choice(LIMITS))))}.{fraction}"


def _number(rng: random.Random) -> str:
    return rng.choice((_whole, _fraction))(rng)


def _exponent(rng: random.Random) -> str:
    return _number(rng) + rng.choice(EXPONENTS) + rng.choice(ENDS)


def _zero(rng: random.Random) -> str:
    return _sign(rng) + rng.choice(("0", "0.0", ".0", "0.", "000", "-0")) + rng.choice(("", *EXPONENTS))


def _suffix(rng: random.Random) -> str:
    return _number(rng) + rng.choice(ENDS)


def _half_way(rng: random.Random) -> str:
    """A number half way between two doubles or two floats, or a digit beside it."""
    bits, power = rng.choice(((53, rng.randrange(0, 900)), (24, rng.randrange(0, 110)), (53, 0), (24, 0)))
    whole = (2 * rng.randrange(2 ** (bits - 1), 2**bits) + 1) << power
    text = str(whole)
    beside = (f"{text}.{'0' * 30}1", f"{whole - 1}.{'9' * 30}")
    return rng.choice((text, f"{text}.0", *beside, f"{text[0]}.{text[1:]}e{len(text) - 1}"))


def _any_case(rng: random.Random, text: str) -> str:
    return rng.choice((text, text.upper(), text.title(), "".join(rng.choice((c.upper(), c)) for c in text)))


def _special(rng: random.Random) -> str:
    word = {"infinity": "Infinity", "nan": "NaN"}.get(rng.choice(SPECIAL[:3]), "inf")
    if rng.random() < 0.6:
        word = _any_case(rng, rng.choice(SPECIAL[:3] if rng.random() < 0.7 else SPECIAL))
    return rng.choice(("", "+", "-", "--", "+ ")) + word


def _truth(rng: random.Random) -> str:
    return _any_case(rng, rng.choice(TRUTHS))


def _year(rng: random.Random) -> str:
    sign = rng.choice(("", "", "", "+", "-"))
    if rng.random() < 0.6:
        return f"{sign}{rng.choice((0, 1, 99, 1582, 1900, 1969, 1970, 2000, 2020, 2023, 2024, 9999)):04d}"
    return sign + str(rng.choice(YEARS)).rjust(rng.choice((1, 2, 3, 4, 5, 6, 7, 8)), "0")


def _part(rng: random.Random, most: int) -> str:
    number = rng.choice((*(rng.randrange(1, most + 1) for _ in range(6)), 1, 1, most, most, most + 1, 0))
    return str(number).rjust(rng.choice((1, 1, 2, 2, 2, 2, 2, 2, 2, 3)), "0")


def _date(rng: random.Random) -> str:
    parts = [_year(rng), _part(rng, 12), _part(rng, rng.choice((28, 29, 30, 31)))][: rng.choice((1, 2, 3, 3, 3, 3))]
    return rng.choice(("-",) * 20 + ("/", "", ".")).join(parts)


def _dated(rng: random.Random) -> str:
    """A date, and something behind it."""
    return _date(rng) + rng.choice(BEHIND_DATES)


def _clock(rng: random.Random) -> str:
    parts = [_part(rng, 23), _part(rng, 59), _part(rng, 59)][: rng.choice((1, 2, 3, 3, 3))]
    digits = "".join(rng.choice("0123456789") for _ in range(rng.choice((0, 1, 3, 6, 6, 7, 9, 12))))
    return ":".join(parts) + (f".{digits}" if rng.random() < 0.5 else "")


def _instant(rng: random.Random) -> str:
    return _date(rng) + rng.choice(("T", " ", " ", "t", "  ", "")) + _clock(rng) + rng.choice(ZONES)


def _of(*texts: str) -> Callable[[random.Random], str]:
    return lambda rng: rng.choice(texts)


_FORMS: Sequence[tuple[str, Callable[[random.Random], str]]] = (
    ("whole number", _whole),
    ("fraction", _fraction),
    ("exponent", _exponent),
    ("zero", _zero),
    ("suffix", _suffix),
    ("half way", _half_way),
    ("special number", _special),
    ("hexadecimal", _of(*HEXADECIMAL)),
    ("truth", _truth),
    ("date", _date),
    ("date", _date),
    ("date with an end", _dated),
    ("date and time", _instant),
    ("date and time", _instant),
    ("date word", _of(*DATE_WORDS)),
    ("time", _clock),
    ("blank", _of("", *BLANKS)),
)
