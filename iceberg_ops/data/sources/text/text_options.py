"""The options of CSV and JSON sources, with the names of Spark's reader options.

Options that only control Spark's guesses have no effect. An option that changes the meaning of a record and that this package does
not support is refused by name, and so is an unknown option.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.data.sources.text.csv_records import CsvForm
from iceberg_ops.data.sources.text.date_patterns import date_parser, timestamp_parser
from iceberg_ops.data.sources.text.text_values import TextForms
from iceberg_ops.errors import OptionError

_OF_LISTING = frozenset(
    {
        "recursivefilelookup", "pathglobfilter", "modifiedbefore", "modifiedafter", "basepath", "ignorecorruptfiles",
        "ignoremissingfiles",
    }
)  # fmt: skip
"""Options that select files; the code that lists files uses them."""
_WITHOUT_EFFECT = frozenset(
    {
        "columnnameofcorruptrecord", "enforceschema", "preferdate", "samplingratio", "maxcolumns", "maxcharspercolumn",
        "unescapedquotehandling", "enabledatetimeparsingfallback", "prefersdecimal", "mergeschema",
    }
)  # fmt: skip
_ONLY_VALUE = {
    "timezone": re.compile("utc|gmt|z|etc/utc|[+-]00:?00", re.IGNORECASE),
    "locale": re.compile("en([-_][a-z]+)?", re.IGNORECASE),
}
"""Options that would change the meaning of values, with the only values that are allowed here."""
_BOTH = frozenset({"encoding", "charset", "multiline", "mode", "dateformat", "timestampformat", "timestampntzformat"})
_CSV = frozenset(
    {
        "header", "sep", "delimiter", "quote", "escape", "comment", "inferschema", "nullvalue", "nanvalue", "positiveinf",
        "negativeinf", "ignoreleadingwhitespace", "ignoretrailingwhitespace",
    }
)  # fmt: skip
_JSON = frozenset({"allowsinglequotes", "allownonnumericnumbers", "primitivesasstring", "dropfieldifallnull"})
_ESCAPES = {"\\t": "\t", "\\b": "\b", "\\f": "\f", "\\r": "\r", "\\n": "\n", '\\"': '"', "\\'": "'", "\\\\": "\\"}


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How to read the text of a source. ``multi_line``: a record may take several lines (CSV: inside quotes; JSON: a file is
    one value). ``drops_malformed``: bad records are left out."""

    encoding: str = "utf-8"
    multi_line: bool = False
    drops_malformed: bool = False
    forms: TextForms = field(default_factory=TextForms)


@dataclass(frozen=True, slots=True)
class CsvOptions(TextOptions):
    """``header``: the first record of each file names its columns; ``header_is_given``: the options say so. ``infers``:
    columns that the table does not have get types."""

    form: CsvForm = field(default_factory=CsvForm)
    header: bool = True
    header_is_given: bool = False
    infers: bool = False


@dataclass(frozen=True, slots=True)
class JsonOptions(TextOptions):
    """``as_text``: fields that the table does not have are text."""

    as_text: bool = False


def csv_options(options: Mapping[str, str]) -> CsvOptions:
    """The options of format csv, with Spark's names and defaults. Raises OptionError."""
    given = _known(options, _CSV, "csv")
    quote = _character(given, "quote", '"')
    form = CsvForm(
        separator=_separator(given),
        quote=quote,
        escape=_character(given, "escape", quote),
        comment=_character(given, "comment", ""),
        null=given.get("nullvalue", ""),
        trim_left=_flag(given, "ignoreleadingwhitespace"),
        trim_right=_flag(given, "ignoretrailingwhitespace"),
    )
    numbers = {
        given.get("nanvalue", "NaN"): math.nan,
        given.get("positiveinf", "Inf"): math.inf,
        given.get("negativeinf", "-Inf"): -math.inf,
    }
    encoding, multi_line, drops = _shared(given)
    return CsvOptions(
        encoding=encoding,
        multi_line=multi_line,
        drops_malformed=drops,
        forms=_forms(given, numbers),
        form=form,
        header=_flag(given, "header", default=True),
        header_is_given="header" in given,
        infers=_flag(given, "inferschema"),
    )


def json_options(options: Mapping[str, str]) -> JsonOptions:
    """The options of format json, with Spark's names and defaults. Raises OptionError."""
    given = _known(options, _JSON, "json")
    for name in ("allowsinglequotes", "allownonnumericnumbers"):
        if not _flag(given, name, default=True):
            raise OptionError(f"source option {name} = false is not supported for format json: leave it out")
    encoding, multi_line, drops = _shared(given)
    return JsonOptions(
        encoding=encoding,
        multi_line=multi_line,
        drops_malformed=drops,
        forms=_forms(given, {}),
        as_text=_flag(given, "primitivesasstring"),
    )


def text_options(source_format: str, options: Mapping[str, str]) -> CsvOptions | JsonOptions:
    """The options of format csv or json. Raises OptionError."""
    return csv_options(options) if source_format == "csv" else json_options(options)


def _known(options: Mapping[str, str], form_options: frozenset[str], form: str) -> dict[str, str]:
    allowed = form_options | _BOTH | _OF_LISTING | _WITHOUT_EFFECT | _ONLY_VALUE.keys()
    for name, value in options.items():
        if (known := _ONLY_VALUE.get(name.lower())) is not None and not known.fullmatch(value.strip()):
            raise OptionError(
                f"source option {name} = {value!r} is not supported: a timestamp without a zone is UTC, and numbers are written as "
                "in English; timestamps of another zone need its offset or name in their text"
            )
        if name.lower() not in allowed:
            raise OptionError(
                f"source option {name!r}{did_you_mean(name, form_options | _BOTH)} is not supported for format {form}: known are "
                f"{', '.join(sorted(form_options | _BOTH))}"
            )
    return {name.lower(): value for name, value in options.items()}


def _shared(given: Mapping[str, str]) -> tuple[str, bool, bool]:
    """Encoding, whether records may take several lines, and whether bad ones are left out."""
    name = given.get("encoding", given.get("charset", "utf-8"))
    try:
        encoding = codecs.lookup(name).name
        "\n".encode(encoding)  # fails for a name that is not a text encoding
    except (LookupError, ValueError):
        raise OptionError(f"source option encoding = {name!r}: no such encoding is known") from None
    mode = given.get("mode", "PERMISSIVE").upper()
    if mode not in ("PERMISSIVE", "FAILFAST", "DROPMALFORMED"):
        raise OptionError(f"source option mode = {given['mode']!r}: must be PERMISSIVE, FAILFAST or DROPMALFORMED")
    return encoding, _flag(given, "multiline"), mode == "DROPMALFORMED"


def _forms(given: Mapping[str, str], numbers: Mapping[str, float]) -> TextForms:
    date, zoned = given.get("dateformat"), given.get("timestampformat")
    plain = given.get("timestampntzformat", zoned)
    return TextForms(
        numbers,
        None if date is None else date_parser(date, "dateFormat"),
        None if zoned is None else timestamp_parser(zoned, "timestampFormat"),
        None if plain is None else timestamp_parser(plain, "timestampNTZFormat" if plain != zoned else "timestampFormat"),
    )


def _flag(given: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    value = given.get(name, str(default)).strip().lower()
    if value not in ("true", "false"):
        raise OptionError(f"source option {name} = {given[name]!r}: must be true or false")
    return value == "true"


def _character(given: Mapping[str, str], name: str, default: str) -> str:
    value = given.get(name, default)
    value = _ESCAPES.get(value, value)
    if value == "\0":
        return ""
    if len(value) > 1 or value in ("\r", "\n"):
        raise OptionError(f"source option {name} = {given[name]!r}: must be one character, or nothing")
    return value


def _separator(given: Mapping[str, str]) -> str:
    text = given.get("sep", given.get("delimiter", ","))
    if not text:
        raise OptionError("source option sep is empty: it must be what stands between two fields")
    separator, at = "", 0
    while at < len(text):
        if text[at] == "\\":
            pair = text[at : at + 2]
            if pair not in _ESCAPES:
                raise OptionError(f"source option sep = {text!r}: a backslash must begin one of {', '.join(_ESCAPES)}")
            separator, at = separator + _ESCAPES[pair], at + 2
        else:
            separator, at = separator + text[at], at + 1
    if "\r" in separator or "\n" in separator:
        raise OptionError(f"source option sep = {text!r}: a line break ends a record")
    return separator


def listing_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that select files."""
    return {name: value for name, value in options.items() if name.lower() in _OF_LISTING}
