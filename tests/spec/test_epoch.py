"""The calendar: compared with Python's own in its range, and by inversion beyond it."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.spec import epoch

EPOCH = dt.date(1970, 1, 1)


@given(st.dates())
def test_days_agree_with_the_proleptic_gregorian_calendar(day: dt.date) -> None:
    """TYPE-08"""
    days = (day - EPOCH).days
    assert epoch.days_from_civil(day.year, day.month, day.day) == days
    assert epoch.civil_from_days(days) == (day.year, day.month, day.day)
    assert epoch.iso_date(days) == day.isoformat()


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_day_of_an_int_comes_back(days: int) -> None:
    assert epoch.days_from_civil(*epoch.civil_from_days(days)) == days
    assert epoch.parse_date(epoch.iso_date(days)) == days


@given(st.datetimes())
def test_timestamps_read_as_python_reads_them(moment: dt.datetime) -> None:
    """TYPE-10 TYPE-33"""
    micros = (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    assert epoch.parse_timestamp(moment.isoformat()) == micros
    assert epoch.iso_timestamp(micros, digits=6) == moment.isoformat(timespec="microseconds")


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_nanosecond_comes_back(nanos: int) -> None:
    """TYPE-12 TYPE-13"""
    text = epoch.iso_timestamp(nanos, epoch.NANOS_PER_SECOND, utc=True)
    assert epoch.parse_timestamptz(text, epoch.NANOS_PER_SECOND) == nanos


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2017-11-16T14:31:08-08:00", 1_510_871_468_000_000),
        ("2017-11-16T22:31:08+00:00", 1_510_871_468_000_000),
        ("2017-11-16T22:31:08Z", 1_510_871_468_000_000),
        ("2017-11-17T04:01:08+0530", 1_510_871_468_000_000),
        ("1970-01-01T00:00+01", -3_600_000_000),
    ],
)
def test_offsets_are_taken_off(text: str, micros: int) -> None:
    """TYPE-11 TYPE-33"""
    assert epoch.parse_timestamptz(text) == micros


@pytest.mark.parametrize(
    "text",
    ["2017-02-29", "2017-13-01", "2017-00-10", "2017-1-1", "17-01-01", "2017-04-31", "", "2017-11-16T00:00:00", "٢٠١٧-01-01x"],
)
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        epoch.parse_date(text)


@pytest.mark.parametrize("text", ["24:00:00", "23:60:00", "23:59:60", "1:00:00", "10:00:00.1234567", "10"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|more than 6 digits"):
        epoch.parse_time(text)


@pytest.mark.parametrize("text", ["2017-11-16", "2017-11-16 00:00:00", "2017-11-16T00:00:00+99:00"])
def test_what_is_no_timestamptz_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no offset|has no valid offset"):
        epoch.parse_timestamptz(text)
