"""What networks and busy stores do: no answer, an answer that is lost or cut, throttling, expired credentials, failures of some
files.

S3 (versitygw) behind ``tests.servers.proxy``."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError, TerminalError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from tests.servers.process import LOOPBACK
from tests.servers.proxy import Answer, Before, ChangedAnswer, CutAnswer, Fault, FaultProxy, LostAnswer, LostRequest, Reply
from tests.servers.stores import Store

MIB = 1 << 20
BUSY = Answer(503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
RETRIES = 3


@dataclass(frozen=True, slots=True)
class World:
    """``io`` asks through the proxy, ``other`` does not."""

    io: FileIO
    other: FileIO
    proxy: FaultProxy
    prefix: str


@pytest.fixture
def world(object_store: Callable[[str], Store]) -> Iterator[World]:
    store = object_store("versitygw")
    with FaultProxy((LOOPBACK, store.port)) as proxy:
        quick = {"s3.retry.num-retries": str(RETRIES), "s3.retry.min-wait-ms": "1", "s3.retry.max-wait-ms": "2"}
        io = load_file_io({**store.behind(proxy.endpoint).properties, **quick, "s3.multipart.part-size-bytes": str(5 * MIB)})
        yield World(io, load_file_io(store.properties), proxy, f"{store.root}/{uuid.uuid4().hex}")


CALLS: dict[str, Callable[[FileIO, str], object]] = {
    "read": lambda io, prefix: io.read(f"{prefix}/there"),
    "open_input": lambda io, prefix: io.open_input(f"{prefix}/there").read(),
    "write": lambda io, prefix: io.write(f"{prefix}/new", b"new"),
    "overwrite": lambda io, prefix: io.write(f"{prefix}/there", b"there", overwrite=True),
    "open_output": lambda io, prefix: io.open_output(f"{prefix}/new").close(),
    "exists": lambda io, prefix: io.exists(f"{prefix}/there"),
    "length": lambda io, prefix: io.length(f"{prefix}/there"),
    "list_prefix": lambda io, prefix: [info.location for info in io.list_prefix(prefix)],
    "delete": lambda io, prefix: io.delete(f"{prefix}/there"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("fault", [BUSY, LostRequest(), Answer(500), Answer(429)], ids=["503", "lost", "500", "429"])
def test_what_passes_is_tried_again(world: World, call: Callable[[FileIO, str], object], fault: Fault) -> None:
    world.other.write(f"{world.prefix}/there", b"there")
    world.proxy.spoil(fault, times=2)
    call(world.io, world.prefix)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("fault", [BUSY, LostRequest()], ids=["503", "lost"])
def test_a_store_that_gives_no_answer_is_unavailable_after_a_few_tries(
    world: World, call: Callable[[FileIO, str], object], fault: Fault
) -> None:
    world.other.write(f"{world.prefix}/there", b"there")
    world.proxy.spoil(fault, times=None)
    with pytest.raises(CatalogUnavailableError, match=f"{world.prefix}.*: the store gives no answer"):
        call(world.io, world.prefix)
    assert len(world.proxy.requests) <= 3 * (RETRIES + 1)


REFUSALS: dict[str, tuple[Answer, str]] = {
    "expired": (Answer(400, b"<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>"), "have expired"),
    "access denied": (Answer(403, b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"), "refuses access"),
    "unknown key": (Answer(403, b"<Error><Code>InvalidAccessKeyId</Code></Error>"), "refuses access .*InvalidAccessKeyId"),
    "other region": (Answer(400, b"<Error><Code>AuthorizationHeaderMalformed</Code></Error>"), "in another region .*client.region"),
    "moved": (Answer(301, b"<Error><Code>PermanentRedirect</Code></Error>"), "in another region .*client.region"),
    "no bucket": (Answer(404, b"<Error><Code>NoSuchBucket</Code></Error>"), "there is no such bucket"),
    "clock": (Answer(403, b"<Error><Code>RequestTimeTooSkewed</Code></Error>"), "clock .* differ too much .*set the clock"),
    "bad request": (Answer(400, b"<Error><Code>InvalidRequest</Code><Message>no</Message></Error>"), "refuses the request"),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("exists", "length")])
def test_a_refusal_is_terminal_and_says_what_to_do(world: World, name: str, refusal: tuple[Answer, str]) -> None:
    world.other.write(f"{world.prefix}/there", b"there")
    world.proxy.spoil(refusal[0], times=None)
    with pytest.raises(TerminalError, match=refusal[1]):
        CALLS[name](world.io, world.prefix)


@pytest.mark.parametrize("name", ["exists", "length"])
def test_a_question_for_the_size_has_no_text_and_never_answers_that_nothing_is_there(world: World, name: str) -> None:
    world.proxy.spoil(Answer(403), method="HEAD", times=None)
    with pytest.raises(TerminalError, match="refuses access"):
        CALLS[name](world.io, world.prefix)
    world.proxy.forget()
    world.proxy.spoil(Answer(404), method="HEAD", times=None)
    world.proxy.spoil(REFUSALS["no bucket"][0], method="GET", times=None)
    with pytest.raises(TerminalError, match="there is no such bucket"):
        CALLS[name](world.io, world.prefix)


def test_a_bucket_that_may_not_be_listed_is_there(world: World) -> None:
    world.proxy.spoil(REFUSALS["access denied"][0], method="GET", times=None)
    assert not world.io.exists(f"{world.prefix}/nothing")
    world.proxy.forget()
    assert not world.io.exists(f"{world.prefix}/nothing")
    assert [request.method for request in world.proxy.requests] == ["HEAD"]


# exclusive creation


@pytest.mark.parametrize("fault", [LostAnswer(), ChangedAnswer.of(502), ChangedAnswer.of(500)], ids=["lost", "502", "500"])
def test_a_creation_whose_answer_is_lost_is_known_to_be_ours(world: World, fault: Fault) -> None:
    world.proxy.spoil(fault, method="PUT")
    world.io.write(f"{world.prefix}/v1", b"ours")
    assert world.other.read(f"{world.prefix}/v1") == b"ours"
    with pytest.raises(FileExistsError):
        world.io.write(f"{world.prefix}/v1", b"ours")


def test_a_creation_whose_answers_are_all_lost_is_known_to_be_ours(world: World) -> None:
    world.proxy.spoil(LostAnswer(), method="PUT", times=None)
    world.io.write(f"{world.prefix}/v1", b"ours")
    assert world.other.read(f"{world.prefix}/v1") == b"ours"


def test_a_creation_after_which_nothing_can_be_asked_is_unknown(world: World) -> None:
    world.proxy.spoil(LostAnswer(), method="PUT", times=None)
    world.proxy.spoil(LostRequest(), method="HEAD", times=None)
    with pytest.raises(CatalogUnavailableError):
        world.io.write(f"{world.prefix}/v1", b"ours")
    assert world.other.read(f"{world.prefix}/v1") == b"ours"


@pytest.mark.parametrize("theirs", [b"theirs", b"ours"])
def test_a_creation_that_another_writer_comes_before_is_not_ours_whatever_the_bytes(world: World, theirs: bytes) -> None:
    location = f"{world.prefix}/v1"
    world.proxy.spoil(LostRequest(), method="PUT")
    world.proxy.spoil(Before(lambda _: world.other.write(location, theirs)), method="PUT")
    with pytest.raises(FileExistsError):
        world.io.write(location, b"ours")
    assert world.other.read(location) == theirs


def test_two_requests_that_meet_may_leave_nothing_and_then_the_name_is_tried_again(world: World) -> None:
    world.proxy.spoil(Answer(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>"), method="PUT", times=2)
    world.io.write(f"{world.prefix}/v1", b"ours")
    assert world.other.read(f"{world.prefix}/v1") == b"ours"
    world.proxy.spoil(Answer(409, b"<Error><Code>ConditionalRequestConflict</Code></Error>"), method="PUT", times=None)
    with pytest.raises(CatalogUnavailableError, match="repeatedly says"):
        world.io.write(f"{world.prefix}/v2", b"ours")


def test_in_a_store_that_keeps_no_metadata_the_bytes_tell(world: World) -> None:
    def without_metadata(reply: Reply) -> Reply:
        return Reply(reply.status, tuple(h for h in reply.headers if not h[0].lower().startswith("x-amz-meta-")), reply.body)

    world.proxy.spoil(LostAnswer(), method="PUT", times=2)
    world.proxy.spoil(ChangedAnswer(without_metadata), method="HEAD", times=None)
    world.io.write(f"{world.prefix}/v1", b"ours")
    world.other.write(f"{world.prefix}/v2", b"theirs")
    with pytest.raises(FileExistsError):
        world.io.write(f"{world.prefix}/v2", b"ours")


# reads


@pytest.mark.parametrize("name", ["read", "open_input"])
def test_an_answer_that_ends_early_is_never_a_short_file(world: World, name: str) -> None:
    content = os.urandom(3 * MIB)
    world.other.write(f"{world.prefix}/there", content)
    world.proxy.spoil(CutAnswer(100_000), method="GET", times=2)
    assert CALLS[name](world.io, world.prefix) == content
    world.proxy.spoil(CutAnswer(100_000), method="GET", times=None)
    with pytest.raises(CatalogUnavailableError):
        CALLS[name](world.io, world.prefix)


def test_an_error_is_not_taken_for_one_about_ranges_by_a_number_in_it(world: World) -> None:
    for number in ("416", "error 416"):
        world.proxy.forget()
        body = f"<Error><Code>InvalidRequest</Code><Message>{number}</Message></Error>".encode()
        world.proxy.spoil(Answer(400, body), method="GET", times=None)
        with pytest.raises(TerminalError, match=number):
            world.io.open_input(f"{world.prefix}/there")
        assert [request.method for request in world.proxy.requests] == ["GET"]


def test_a_file_that_is_written_again_while_it_is_read_is_an_error(world: World) -> None:
    world.other.write(f"{world.prefix}/there", os.urandom(3 * MIB))
    with world.io.open_input(f"{world.prefix}/there") as stream:
        world.other.write(f"{world.prefix}/there", os.urandom(3 * MIB), overwrite=True)
        with pytest.raises(TerminalError, match="was written again while it was read"):
            stream.read()


# large files


@pytest.mark.parametrize("fails", [("PUT", "partNumber=2"), ("PUT", "partNumber=4"), ("POST", "uploadId=")])
def test_an_upload_that_fails_is_an_error_and_leaves_nothing(
    world: World, fails: tuple[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    world.proxy.spoil(BUSY, method=fails[0], path=fails[1], times=None)

    def write() -> None:
        with world.io.open_output(f"{world.prefix}/large") as output:
            for _ in range(4):
                output.write(os.urandom(5 * MIB))

    with pytest.raises(CatalogUnavailableError):
        write()
    assert not world.other.exists(f"{world.prefix}/large")
    assert any(request.method == "DELETE" and "uploadId" in request.path for request in world.proxy.requests)
    assert "may be left" not in caplog.text


def test_an_upload_whose_last_answer_is_lost_is_known_to_be_done(world: World) -> None:
    content = os.urandom(11 * MIB)
    world.proxy.spoil(LostAnswer(), method="POST", path="uploadId")
    with world.io.open_output(f"{world.prefix}/large") as output:
        output.write(content)
    assert world.other.read(f"{world.prefix}/large") == content


def test_a_small_output_whose_answer_is_lost_is_known_to_be_done(world: World) -> None:
    world.proxy.spoil(LostAnswer(), method="PUT")
    with world.io.open_output(f"{world.prefix}/small") as output:
        output.write(b"small")
    assert world.other.read(f"{world.prefix}/small") == b"small"


# deletes


def test_of_files_that_could_not_be_deleted_each_is_named(world: World) -> None:
    locations = [f"{world.prefix}/f{number}" for number in range(20)]
    for location in locations:
        world.other.write(location, b"")
    key = locations[0].split("/", 3)[3]
    failed = f"<DeleteResult><Error><Key>{key}</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    world.proxy.spoil(ChangedAnswer.of(200, failed.encode()), method="POST")
    refused = Answer(403, b"<Error><Code>AccessDenied</Code></Error>")
    world.proxy.spoil(refused, when=lambda request: f"{key}<".encode() in request.body or request.path.endswith(key))
    failures = world.io.delete_many([*locations, f"{world.prefix}/gone"])
    assert [failure.location for failure in failures] == [locations[0]]
    assert "refuses access" in failures[0].reason


def test_an_answer_about_other_files_is_not_taken_for_one_about_these(world: World) -> None:
    """The client ends in a panic there, which is not an Exception."""
    world.other.write(f"{world.prefix}/f", b"x")
    failed = b"<DeleteResult><Error><Key>another</Key><Code>AccessDenied</Code><Message>no</Message></Error></DeleteResult>"
    world.proxy.spoil(Answer(200, failed), method="POST")
    assert world.io.delete_many([f"{world.prefix}/f"]) == []
    assert not world.other.exists(f"{world.prefix}/f")


@pytest.mark.parametrize("fault", [LostAnswer(), CutAnswer(3), LostRequest()], ids=["lost", "cut", "never came"])
def test_a_bulk_delete_whose_answer_is_lost_is_repeated(world: World, fault: Fault) -> None:
    locations = [f"{world.prefix}/f{number}" for number in range(5)]
    for location in locations:
        world.other.write(location, b"x")
    world.proxy.spoil(fault, method="POST")
    assert world.io.delete_many(locations) == []
    assert list(world.other.list_prefix(world.prefix)) == []


def test_a_bulk_delete_without_an_answer_fails_for_every_file_and_nothing_more_is_tried(world: World) -> None:
    locations = [f"{world.prefix}/f{number}" for number in range(2_500)]
    world.proxy.spoil(BUSY, times=None)
    failures = world.io.delete_many(locations)
    assert [failure.location for failure in failures] == locations
    assert len(world.proxy.requests) == RETRIES + 1


def test_messages_hold_no_secret_and_are_one_line(world: World) -> None:
    secrets = [value for name, value in world.io.properties.items() if "key" in name]
    for answer in (BUSY, *(answer for answer, _ in REFUSALS.values())):
        world.proxy.forget()
        world.proxy.spoil(answer, times=None)
        with pytest.raises(IcebergOpsError) as refused:
            world.io.read(f"{world.prefix}/a")
        text = str(refused.value)
        assert "\n" not in text
        assert "Debug" not in text
        assert not any(secret in text for secret in secrets)
