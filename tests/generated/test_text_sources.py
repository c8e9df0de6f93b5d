"""CSV and JSON as people and programs write them: the rows that the documented rules define, or a refusal before anything is
committed."""

from __future__ import annotations

import bz2
import datetime
import gzip
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.config.job_spec import Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import DataError, SchemaError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.schema import Schema
from tests.actions.rows_place import RowsPlace
from tests.generated.drawing import Draw, for_each_seed, missing
from tests.generated.text_sources import NESTED, SCHEMA, SPOILED_CSV, SPOILED_JSON, UNKNOWN, Drawn, csv_source, json_source
from tests.spark.conftest import Place, place  # noqa: F401 - a fixture

pytestmark = pytest.mark.spark
LOCAL_CSV, LOCAL_JSON, LOCAL_CASES = "csv sources on lane local", "json sources on lane local", 120


def plain(value: Any) -> Any:
    """A value in a form that compares: NaN as text, dates as ISO 8601, -0.0 apart from 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        items = [tuple(plain(x) for x in v) if isinstance(v, tuple) else plain(v) for v in value]
        return sorted(items, key=repr) if value and isinstance(value[0], tuple) else items
    return value


def check_source(draw: Draw, place: Place, form: str, schema: Schema, drawn: Drawn) -> None:  # noqa: F811
    name = f"t{draw.seed}"
    place.create(name, schema)
    path = written(draw, place.folder, f"{name}.txt", drawn.text)
    source = Source(format=form, paths=[str(path)], options=drawn.options)  # type: ignore[arg-type]
    size = draw.choice([None, 16, 40, 100])
    draw.note("one part" if size is None else "many parts")
    with parts_of(place, size):
        check_job(place, name, source, drawn)


@contextmanager
def parts_of(place: Place, size: int | None) -> Iterator[None]:  # noqa: F811
    """Within: Spark cuts files into parts of so many bytes, wherever that is; None: of its own size."""
    sizes = {"maxPartitionBytes": size, "openCostInBytes": 1} if size else {}
    names = {f"spark.sql.files.{name}": value for name, value in sizes.items()}
    before = {name: place.session.conf.get(name) for name in names}
    for name, value in names.items():
        place.session.conf.set(name, str(value))
    try:
        yield
    finally:
        for name, given in before.items():
            place.session.conf.set(name, str(given))


def written(draw: Draw, folder: Path, name: str, text: bytes) -> Path:
    """The file with ``text``, perhaps compressed: then it may be several streams, one behind the other."""
    end, compress = draw.choice([("", bytes), ("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)])
    cut = draw.randint(0, len(text))
    draw.note(f"compressed {end or 'not'}")
    path = folder / f"{name}{end}"
    path.write_bytes(compress(text[:cut]) + compress(text[cut:]))
    return path


def check_job(place: Place, name: str, source: Source, drawn: Drawn) -> None:  # noqa: F811
    try:
        place.run("append", name, source=source)
    except (DataError, SchemaError) as e:
        assert drawn.rows is None, f"{e} of {drawn.text.decode()}"  # noqa: PT017
        assert not [f for f in place.files_on_disk(name) if f.startswith("data/")]
        check_quarantine(place, name, source, drawn)
        return
    assert drawn.rows is not None, f"nothing is wrong with {drawn.text.decode()}"
    check_rows(place, name, drawn, drawn.rows)


def check_quarantine(place: Place, name: str, source: Source, drawn: Drawn) -> None:  # noqa: F811
    """Where bad records go to the quarantine, all others are stored."""
    options = {"bad-records": "quarantine", "quarantine-path": str(place.folder / f"{name}-quarantine")}
    try:
        place.run("append", name, source=source, options=options)
    except (DataError, SchemaError) as e:
        assert drawn.kept is None, f"{e} of {drawn.text.decode()}"  # noqa: PT017
        return
    assert drawn.kept is not None, f"there are more than bad records in {drawn.text.decode()}"
    check_rows(place, name, drawn, drawn.kept)


def check_rows(place: Place, name: str, drawn: Drawn, rows: list[dict[str, Any]]) -> None:  # noqa: F811
    check_found(scan_table(place.table(name), Scan()).to_pylist(), drawn, rows)


def check_found(found: list[dict[str, Any]], drawn: Drawn, rows: list[dict[str, Any]]) -> None:
    given, wanted = (sorted(map(repr, map(plain, rows))) for rows in (found, rows))
    different = [pair for pair in zip(given, wanted, strict=False) if pair[0] != pair[1]]
    assert given == wanted, f"{different[:1]} of {drawn.text.decode()}"


def check_on_lane_local(draw: Draw, root: Path, form: str, schema: Schema, drawn: Drawn) -> None:
    """The same rows and the same refusals as on Spark, whatever the file is compressed by; the first bad record is named."""
    folder = root / str(draw.seed)
    own = RowsPlace.at(folder)
    own.create(schema)
    path = written(draw, folder, f"a.{form}", drawn.text)
    source = Source(format=form, paths=[str(path)], options=drawn.options)  # type: ignore[arg-type]
    try:
        own.run("append", source=source)
    except (DataError, SchemaError) as e:
        assert drawn.rows is None, f"{e} of {drawn.text.decode()}"  # noqa: PT017
        assert str(path) in str(e), e  # noqa: PT017
        return
    assert drawn.rows is not None, f"nothing is wrong with {drawn.text.decode()}"
    check_found(scan_table(own.table(), Scan()).to_pylist(), drawn, drawn.rows)


OUT_OF_RANGE = {"whole number out of range", "floating number out of range"}
CSV = {"header", "by position", "doubled quote", "good", "bad", "byte order mark", "line end '\\r'", "multiLine"}
CSV |= {*SPOILED_CSV, *OUT_OF_RANGE}
JSON = {"good", "bad", "nested name in another case", "multiLine", "array on a line", "byte order mark"}
JSON |= {*SPOILED_JSON, *UNKNOWN, *OUT_OF_RANGE}
COMPRESSED = {f"compressed {how}" for how in ("not", ".gz", ".bz2")}


def check_local_csv(draw: Draw, root: Path) -> None:
    check_on_lane_local(draw, root, "csv", SCHEMA, csv_source(draw))


def check_local_json(draw: Draw, root: Path) -> None:
    check_on_lane_local(draw, root, "json", NESTED, json_source(draw))


def test_csv_is_what_its_rules_say(place: Place) -> None:  # noqa: F811
    for_each_seed("csv sources", 14, lambda draw: check_source(draw, place, "csv", SCHEMA, csv_source(draw)))
    assert missing("csv sources", CSV | {"many parts"}) == set()


def test_json_is_what_its_rules_say(place: Place) -> None:  # noqa: F811
    for_each_seed("json sources", 16, lambda draw: check_source(draw, place, "json", NESTED, json_source(draw)))
    assert missing("json sources", JSON | {"many parts"}) == set()


def test_csv_on_lane_local_is_what_its_rules_say(tmp_path: Path) -> None:
    for_each_seed(LOCAL_CSV, LOCAL_CASES, lambda draw: check_local_csv(draw, tmp_path))
    assert missing(LOCAL_CSV, CSV | COMPRESSED) == set()


def test_json_on_lane_local_is_what_its_rules_say(tmp_path: Path) -> None:
    for_each_seed(LOCAL_JSON, LOCAL_CASES, lambda draw: check_local_json(draw, tmp_path))
    assert missing(LOCAL_JSON, JSON | COMPRESSED) == set()
