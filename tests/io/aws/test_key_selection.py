"""Which AWS keys are found, from whom, and that each source gives new ones before they expire."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.errors import CatalogUnavailableError, OptionError, TerminalError
from iceberg_ops.io.aws.asking import ServiceResponse
from iceberg_ops.io.aws.key_selection import KeySelection, select_keys
from iceberg_ops.io.aws.keys import AwsKeys, RenewedKeys
from tests.servers.aws_keys import AwsServices, aws_services

OWN = {"client.access-key-id": "AKIA", "client.secret-access-key": "geheim"}
ROLE = "arn:aws:iam::1:role/r"


@pytest.fixture
def services() -> Iterator[AwsServices]:
    with aws_services() as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws" / "sso" / "cache").mkdir(parents=True)
    return tmp_path


def environment(home: Path, services: AwsServices | None = None, **more: str) -> dict[str, str]:
    found = {"HOME": str(home), **more}
    if services is not None:
        found |= {
            "AWS_ENDPOINT_URL_STS": services.endpoint,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": services.endpoint,
            "AWS_ENDPOINT_URL_SSO": services.endpoint,
        }
    return found


def write(home: Path, file: str, text: str) -> None:
    (home / ".aws" / file).write_text(text)


def sign_in(home: Path, name: str, **more: Any) -> None:
    ends = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    token = {"accessToken": "sso-token", "expiresAt": ends, **more}
    (home / ".aws" / "sso" / "cache" / f"{hashlib.sha1(name.encode()).hexdigest()}.json").write_text(json.dumps(token))


# which ones


@pytest.mark.parametrize(
    ("properties", "variables", "key"),
    [
        ({"glue.access-key-id": "G", "glue.secret-access-key": "s", **OWN}, {}, "G"),
        ({"s3.access-key-id": "S", "s3.secret-access-key": "s", **OWN}, {}, "AKIA"),
        (OWN, {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "s"}, "AKIA"),
        ({"glue.profile-name": "team"}, {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "s"}, "T"),
        ({"client.profile-name": "team"}, {}, "T"),
        ({}, {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "s", "AWS_PROFILE": "team"}, "E"),
        ({}, {"AWS_PROFILE": "team"}, "T"),
        ({}, {"AWS_DEFAULT_PROFILE": "team"}, "T"),
        ({}, {}, "D"),
        (OWN, {"AWS_PROFILE": "nobody"}, "AKIA"),
    ],
)
def test_the_nearest_keys_count(properties: dict[str, str], variables: dict[str, str], key: str, home: Path) -> None:
    write(home, "credentials", "[default]\naws_access_key_id=D\naws_secret_access_key=s\n[team]\naws_access_key_id=T\n")
    write(home, "config", "[profile team]\naws_secret_access_key=s\nregion=eu-north-1\n")
    found = select_keys(properties, "glue", environment(home, **variables))
    assert found.keys().key_id == key
    assert found.region == ("eu-north-1" if key == "T" else None)
    assert "geheim" not in repr(found.keys())


def test_the_files_of_a_profile_are_read_each_time(home: Path) -> None:
    write(home, "credentials", "[default]\naws_access_key_id=A\naws_secret_access_key=s\n")
    found = select_keys({}, "s3", environment(home))
    assert found.keys().key_id == "A"
    write(home, "credentials", "[default]\naws_access_key_id=B\naws_secret_access_key=s\naws_session_token=t\n")
    assert (found.keys().key_id, found.keys().session_token) == ("B", "t")
    write(home, "credentials", "[default]\naws_access_key_id=B\n")
    with pytest.raises(TerminalError, match="AWS profile 'default' has no aws_access_key_id and aws_secret_access_key"):
        found.keys()


CONFIGS: dict[str, tuple[str, str, str]] = {
    "nobody": ("[profile team]\nregion=x\n", "", "AWS profile 'nobody' is not in"),
    "no INI file": ("no section = geheim\n", "", "cannot be read as a file of AWS profiles"),
    "half": ("", "half", "properties client.access-key-id and client.secret-access-key: set both, or none"),
    "MFA": (f"[profile nobody]\nrole_arn={ROLE}\nmfa_serial=geheim\nsource_profile=default\n", "", "asks for a code"),
    "no source": (f"[profile nobody]\nrole_arn={ROLE}\n", "", "its role needs a source_profile or credential_source"),
    "a circle": (f"[profile nobody]\nrole_arn={ROLE}\nsource_profile=b\n[profile b]\nrole_arn={ROLE}\nsource_profile=nobody\n", "",
                 "source_profile leads from profile to profile"),
    "duration": (f"[profile nobody]\nrole_arn={ROLE}\nduration_seconds=1h\ncredential_source=EcsContainer\n", "",
                 "must be a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("case", CONFIGS)
def test_settings_that_give_no_keys_are_refused_at_once(case: str, home: Path) -> None:
    config, half, said = CONFIGS[case]
    write(home, "config", config)
    properties = {"client.secret-access-key": "geheim"} if half else {}
    with pytest.raises(OptionError) as caught:
        select_keys(properties, "s3", environment(home, AWS_PROFILE="nobody"))
    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("begun", ["s3", "client"])
def test_a_profile_that_a_property_names_has_keys(begun: str, home: Path) -> None:
    """Those of the environment, or of the machine, would be another account's."""
    write(home, "credentials", "[prod]\naws_acces_key_id=A\naws_secret_access_key=geheim\n[dev]\nregion=eu-west-1\n")
    for name in ("prod", "dev"):
        with pytest.raises(OptionError, match=f"AWS profile '{name}' has no keys") as caught:
            select_keys({f"{begun}.profile-name": name}, "s3", environment(home, AWS_ACCESS_KEY_ID="E", AWS_SECRET_ACCESS_KEY="s"))
        assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AWS_ACCESS_KEY_ID", "geheim\n", "the access key id for AWS"),
        ("AWS_SECRET_ACCESS_KEY", "geheim\n", "the secret access key for AWS"),
        ("AWS_SESSION_TOKEN", "geheim\r\nX-Other: 1", "the session token for AWS"),
        ("AWS_SESSION_TOKEN", "geheim\u00e9", "the session token for AWS"),
    ],
)
def test_keys_that_no_request_can_have_are_not_shown(variable: str, value: str, said: str, home: Path) -> None:
    given = {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "s", variable: value}
    with pytest.raises(OptionError, match=said) as caught:
        select_keys({}, "s3", environment(home, **given))
    assert "geheim" not in repr(caught.value)
    assert select_keys(OWN, "s3", environment(home, **given)).keys().key_id == "AKIA"  # they are not asked for


# from whom


def _role(home: Path, services: AwsServices) -> KeySelection:
    return select_keys({**OWN, "s3.role-arn": ROLE, "client.assume-role.external-id": "x"}, "s3", environment(home, services))


def _java_role(home: Path, services: AwsServices) -> KeySelection:
    properties = {**OWN, "client.assume-role.arn": ROLE, "client.assume-role.timeout-sec": "900"}
    return select_keys(properties, "glue", environment(home, services))


def _role_of_profile(home: Path, services: AwsServices) -> KeySelection:
    write(
        home,
        "config",
        f"[profile a]\nrole_arn={ROLE}\nsource_profile=b\n[profile b]\naws_access_key_id=AKIA\naws_secret_access_key=s\n",
    )
    return select_keys({"rest.profile-name": "a"}, "rest", environment(home, services))


def _role_of_instance(home: Path, services: AwsServices) -> KeySelection:
    write(home, "config", f"[profile a]\nrole_arn={ROLE}\ncredential_source=Ec2InstanceMetadata\n")
    return select_keys({}, "s3", environment(home, services, AWS_PROFILE="a"))


def _web_identity(home: Path, services: AwsServices) -> KeySelection:
    (home / "token").write_text("web-token\n")
    more = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(home / "token"), "AWS_ROLE_ARN": ROLE, "AWS_ROLE_SESSION_NAME": "me"}
    return select_keys({}, "s3", environment(home, services, **more))


def _web_identity_of_profile(home: Path, services: AwsServices) -> KeySelection:
    (home / "token").write_text("web-token\n")
    write(home, "config", f"[default]\nrole_arn={ROLE}\nweb_identity_token_file={home / 'token'}\n")
    return select_keys({}, "s3", environment(home, services))


def _container(home: Path, services: AwsServices) -> KeySelection:
    (home / "token").write_text("container-token\n")
    address = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{services.endpoint}/container"}
    return select_keys({}, "s3", environment(home, **address, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=str(home / "token")))


def _instance(home: Path, services: AwsServices) -> KeySelection:
    return select_keys({}, "s3", environment(home, services))


def _single_sign_on(home: Path, services: AwsServices) -> KeySelection:
    sign_in(home, "corp")
    write(
        home,
        "config",
        "[profile a]\nsso_session=corp\nsso_account_id=1\nsso_role_name=r\n[sso-session corp]\nsso_region=eu-west-1\n",
    )
    return select_keys({}, "s3", environment(home, services, AWS_PROFILE="a"))


def _single_sign_on_of_old(home: Path, services: AwsServices) -> KeySelection:
    sign_in(home, "https://corp")
    write(home, "config", "[default]\nsso_start_url=https://corp\nsso_region=eu-west-1\nsso_account_id=1\nsso_role_name=r\n")
    return select_keys({}, "s3", environment(home, services))


def _program(home: Path, services: AwsServices) -> KeySelection:
    program = home / "give keys"
    program.write_text(
        f"#!/bin/sh\nn=$(cat {home}/n 2>/dev/null || echo 1); echo $((n + 1)) > {home}/n\n"
        'echo "{\\"Version\\": 1, \\"AccessKeyId\\": \\"ASIA$n\\", \\"SecretAccessKey\\": \\"s\\", '
        '\\"SessionToken\\": \\"token-of-ASIA$n\\", \\"Expiration\\": \\"2030-01-01T00:00:00Z\\"}"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    write(home, "config", f"[profile a]\ncredential_process = '{program}' --quiet\n")
    return select_keys({}, "s3", environment(home, AWS_PROFILE="a"))


SOURCES = {
    "a role": _role,
    "a role as Java names it": _java_role,
    "a role of a profile": _role_of_profile,
    "a role of a profile of the instance": _role_of_instance,
    "a web identity": _web_identity,
    "a web identity of a profile": _web_identity_of_profile,
    "a container": _container,
    "the instance": _instance,
    "single sign-on": _single_sign_on,
    "single sign-on of old": _single_sign_on_of_old,
    "a program": _program,
}


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_gives_keys_once_until_they_are_about_to_expire(source: str, home: Path, services: AwsServices) -> None:
    found = SOURCES[source](home, services)
    assert services.asked == [], "nothing is asked before keys are needed"
    first = found.keys()
    assert first.key_id.startswith("ASIA")
    assert (first.session_token or "").endswith(f"token-of-{first.key_id}")
    assert first.expires_at is not None
    asked = len(services.asked)
    assert found.keys() == first
    assert len(services.asked) == asked


def test_what_is_asked_of_sts(home: Path, services: AwsServices) -> None:
    _role(home, services).keys()
    _java_role(home, services).keys()
    _web_identity(home, services).keys()
    common = {"Version": "2011-06-15", "RoleArn": ROLE}
    assert [form for _, form in services.asked] == [
        {"Action": "AssumeRole", "RoleSessionName": "iceberg-ops", "ExternalId": "x", **common},
        {"Action": "AssumeRole", "RoleSessionName": "iceberg-ops", "DurationSeconds": "900", **common},
        {"Action": "AssumeRoleWithWebIdentity", "RoleSessionName": "me", "WebIdentityToken": "web-token", **common},
    ]
    assert services.signed_by == ["AKIA", "AKIA", None]
    assert _role(home, services).keys().session_token == "a&b-token-of-ASIA4"


@pytest.mark.parametrize(
    ("properties", "variables", "host"),
    [
        ({}, {}, "sts.amazonaws.com"),
        ({"s3.region": "cn-north-1"}, {}, "sts.cn-north-1.amazonaws.com.cn"),  # a role of China is unknown elsewhere
        ({"s3.region": "eu-west-1"}, {"AWS_REGION": "us-east-2"}, "sts.us-east-2.amazonaws.com"),
        ({"s3.region": "eu-west-1", "client.region": "eu-west-3"}, {}, "sts.eu-west-3.amazonaws.com"),
    ],
)
def test_a_role_is_assumed_in_the_region_of_the_files_if_no_other_is_named(
    properties: dict[str, str], variables: dict[str, str], host: str, home: Path
) -> None:
    asked: list[str] = []

    def ask(_: str, address: str, **__: Any) -> ServiceResponse:
        asked.append(address)
        return ServiceResponse(500, b"")

    given = {**OWN, "client.role-arn": ROLE, **properties}
    with pytest.raises(CatalogUnavailableError):
        select_keys(given, "s3", environment(home, **variables), ask).keys()
    assert asked == [f"https://{host}/"]


@pytest.mark.parametrize("source", sorted(set(SOURCES) - {"a program"}))
def test_a_refusal_is_told_by_its_code_and_shows_no_secret(source: str, home: Path, services: AwsServices) -> None:
    found = SOURCES[source](home, services)
    services.refusal = 403, b"<Error><Code>AccessDenied</Code><Message>User is not authorized</Message></Error>"
    with pytest.raises(TerminalError) as caught:
        found.keys()
    assert "403" in str(caught.value) or "has no role" in str(caught.value)
    for secret in ("geheim", "web-token", "sso-token", "container-token"):
        assert secret not in str(caught.value)


def test_a_service_without_an_answer_may_be_asked_later(home: Path) -> None:
    with aws_services() as gone:
        found = _role(home, gone)
    with pytest.raises(CatalogUnavailableError, match=r"^http://127.0.0.1:\d+/ gives no answer \(ConnectionRefusedError\)$"):
        found.keys()


def test_no_file_is_taken_for_a_service(home: Path) -> None:
    (home / "latest").write_text("geheim")
    found = select_keys({**OWN, "client.role-arn": ROLE}, "s3", environment(home, AWS_ENDPOINT_URL_STS=f"file://{home}/latest"))
    with pytest.raises(OptionError, match="must begin with http:// or https://"):
        found.keys()


def test_nothing_at_all_says_where_keys_may_be(home: Path) -> None:
    found = select_keys({}, "s3", environment(home, AWS_EC2_METADATA_DISABLED="true"))
    with pytest.raises(TerminalError, match="no AWS credentials were found: set them in the catalog's properties"):
        found.keys()


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (None, "there is no single sign-on session"),
        ({"expiresAt": "2020-01-01T00:00:00Z"}, "has expired"),
        ({"accessToken": "other"}, "not accepted"),
    ],
)
def test_single_sign_on_says_to_sign_in(token: dict[str, str] | None, said: str, home: Path, services: AwsServices) -> None:
    found = _single_sign_on(home, services)
    if token is None:
        next((home / ".aws" / "sso" / "cache").iterdir()).unlink()
    else:
        sign_in(home, "corp", **token)
    with pytest.raises(TerminalError, match=f"{said}.*aws sso login"):
        found.keys()


@pytest.mark.parametrize("keys", ["null", "[]", "{}", '{"accessKeyId": "A", "secretAccessKey": "geheim", "expiration": %s}'])
def test_an_odd_answer_of_single_sign_on_is_told(keys: str, home: Path, services: AwsServices) -> None:
    found = _single_sign_on(home, services)
    for expiration in ("null", '"soon"', "1e30", "99999999999999999999"):
        services.refusal = (200, b'{"roleCredentials": %s}' % keys.replace("%s", expiration).encode())
        with pytest.raises(TerminalError, match="single sign-on gives no AWS keys") as caught:
            found.keys()
        assert "geheim" not in str(caught.value)


def test_a_container_token_goes_nowhere_in_plain_text(home: Path) -> None:
    more = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://keys.example.com/x", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "geheim"}
    with pytest.raises(OptionError, match="must be an https address, or one of this machine"):
        select_keys({}, "s3", environment(home, **more)).keys()


def test_a_containers_token_that_no_request_can_have_is_not_shown(home: Path) -> None:
    given = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:1/x", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "Basic geheim\nx"}
    with pytest.raises(OptionError, match="or the token for it") as caught:
        select_keys({}, "s3", environment(home, **given)).keys()
    assert "geheim" not in repr(caught.value)


KEYS_WITH = 'printf \'{"AccessKeyId": "A", "SecretAccessKey": "geheim", %s}\''


@pytest.mark.parametrize(
    "command",
    [
        *("false", "echo geheim", "/nowhere/program", "echo '{}'", "echo '\"", "sh -c 'echo geheim >&2; exit 3'"),
        *(KEYS_WITH % more for more in ('"Expiration": 1700000000', '"Expiration": []', '"SessionToken": ["geheim"]')),
    ],
)
def test_a_program_that_gives_no_keys_is_not_quoted(command: str, home: Path) -> None:
    write(home, "config", f"[profile a]\ncredential_process = {command}\n")
    with pytest.raises(TerminalError, match="the credential_process of the AWS profile gives no keys") as caught:
        select_keys({}, "s3", environment(home, AWS_PROFILE="a")).keys()
    assert "geheim" not in str(caught.value)


# when


class _Clock:
    at = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


def test_keys_are_renewed_before_they_expire_and_old_ones_serve_while_that_fails() -> None:
    clock, given = _Clock(), list[AwsKeys]()
    fails = False

    def fetch() -> AwsKeys:
        if fails:
            raise CatalogUnavailableError("STS is away")
        given.append(AwsKeys(f"K{len(given)}", "s", "t", clock.at + timedelta(hours=1)))
        return given[-1]

    keys = RenewedKeys(fetch, clock)
    assert keys().key_id == "K0"
    clock.at += timedelta(minutes=54)
    assert keys().key_id == "K0"
    fails = True
    clock.at += timedelta(minutes=2)
    assert keys().key_id == "K0"
    fails = False
    assert keys().key_id == "K0", "not asked again at once"
    clock.at += timedelta(seconds=11)
    assert keys().key_id == "K1"
    fails = True
    clock.at += timedelta(hours=2)
    with pytest.raises(CatalogUnavailableError, match="STS is away"):
        keys()


@pytest.mark.parametrize(
    ("life", "kept"), [(timedelta(minutes=4), timedelta(minutes=3)), (timedelta(hours=12), timedelta(hours=11.9))]
)
def test_short_lives_keep_three_quarters(life: timedelta, kept: timedelta) -> None:
    clock, count = _Clock(), [0]

    def fetch() -> AwsKeys:
        count[0] += 1
        return AwsKeys("K", "s", "t", clock.at + life)

    keys = RenewedKeys(fetch, clock)
    keys()
    clock.at += kept - timedelta(seconds=1)
    keys()
    assert count == [1]
    clock.at += timedelta(minutes=2)
    keys()
    assert count == [2]
