"""The sources of AWS keys that expire: a role, a web identity, single sign-on, a program, a container, an instance.

Each function sends one request; ``keys.RenewedKeys`` repeats it in time. Sources: AWS SDKs and Tools Reference Guide, "Standardized
credential providers"; STS API Reference; EC2 User Guide, "IMDSv2".
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError, OptionError, TerminalError
from iceberg_ops.io.aws.asking import Ask, ServiceResponse
from iceberg_ops.io.aws.keys import AwsKeys, KeySource, now
from iceberg_ops.io.aws.signature import signing_headers

_PROGRAM_TIMEOUT_S = 60
_METADATA_TIMEOUT_S = 2.0
_LAST_MS = 253_402_300_799_000
"""The year 9999: Python has no later time."""
_TOKEN_LIFE = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
_CONTAINER_HOSTS = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "127.0.0.1", "localhost", "::1"})
_CODE, _TEXT = re.compile(r"<Code>([^<]{1,100})</Code>"), re.compile(r"<Message>([^<]{1,500})</Message>")


@dataclass(frozen=True, slots=True)
class Role:
    """A role to assume, as the ``client.assume-role.*`` properties or a profile describe it."""

    arn: str
    session_name: str = "iceberg-ops"
    external_id: str | None = field(default=None, repr=False)
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Services:
    """The services that issue keys, as the environment names them. ``region``: of STS; None: the global one."""

    environment: Mapping[str, str]
    ask: Ask
    region: str | None = None

    def _sts(self) -> str:
        named = self.environment.get("AWS_ENDPOINT_URL_STS") or self.environment.get("AWS_ENDPOINT_URL")
        if named:
            return named.rstrip("/") + "/"
        return f"https://{_host('sts', self.region)}/" if self.region else "https://sts.amazonaws.com/"

    def assumed(self, role: Role, base: KeySource) -> AwsKeys:
        """The keys of a role, for the identity of ``base``. Raises TerminalError, CatalogUnavailableError."""
        given = {"ExternalId": role.external_id, "DurationSeconds": None if role.seconds is None else str(role.seconds)}
        return self._of_sts("AssumeRole", role, {name: value for name, value in given.items() if value}, base)

    def of_web_identity(self, role: Role, token_file: Path) -> AwsKeys:
        """The keys of a role, for a token that the system renews in its file."""
        token = _read_text(token_file, "the web identity's token")
        return self._of_sts("AssumeRoleWithWebIdentity", role, {"WebIdentityToken": token}, None)

    def _of_sts(self, action: str, role: Role, more: Mapping[str, str], base: KeySource | None) -> AwsKeys:
        form = {"Action": action, "Version": "2011-06-15", "RoleArn": role.arn, "RoleSessionName": role.session_name, **more}
        address, body = self._sts(), urlencode(form).encode()
        parts = urlsplit(address)
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Host": parts.netloc}
        if base is not None:
            region = self.region or "us-east-1"
            keys = base()
            headers |= signing_headers("POST", parts.path, "", headers, body, keys=keys, service="sts", region=region, at=now())
        answer = self.ask("POST", address, headers=headers, body=body)
        what = f"AWS gives no keys of role {role.arn}"
        if answer.status != 200:
            raise _refused(what, answer)
        elements = {name: _element(answer.text, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")}
        return _keys(elements, what, token="SessionToken")

    def of_single_sign_on(self, settings: Mapping[str, str], session: Mapping[str, str], cache: Path) -> AwsKeys:
        """The keys of a role, for the person who has signed in. ``cache``: the folder of the token that ``aws sso login`` wrote."""
        name = settings.get("sso_session") or settings.get("sso_start_url") or ""
        region = session.get("sso_region") or settings.get("sso_region")
        account = {key: settings.get(key) for key in ("sso_account_id", "sso_role_name")}
        if not region or not all(account.values()):
            raise OptionError("an AWS profile with single sign-on needs sso_region, sso_account_id and sso_role_name")
        again = "run `aws sso login`, then the job again"
        try:
            file = cache / f"{hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()}.json"
            token = json.loads(file.read_bytes())
            ends, secret = _time(token["expiresAt"]), str(token["accessToken"])
        except (OSError, ValueError, KeyError, TypeError):
            raise TerminalError(f"there is no single sign-on session for AWS: {again}") from None
        if ends <= now():
            raise TerminalError(f"the single sign-on to AWS has expired: {again}")
        query = urlencode({"role_name": account["sso_role_name"], "account_id": account["sso_account_id"]})
        host = self.environment.get("AWS_ENDPOINT_URL_SSO", f"https://{_host('portal.sso', region)}").rstrip("/")
        answer = self.ask("GET", f"{host}/federation/credentials?{query}", headers={"x-amz-sso_bearer_token": secret})
        if answer.status == 401:
            raise TerminalError(f"the single sign-on to AWS is not accepted any more: {again}")
        what = "single sign-on gives no AWS keys"
        if answer.status != 200:
            raise _refused(what, answer)
        credentials = _json(answer.body, what).get("roleCredentials")
        if not isinstance(credentials, dict) or not isinstance(at := credentials.get("expiration"), int) or not 0 <= at <= _LAST_MS:
            raise TerminalError(f"{what}: its answer has no keys that expire")
        until = datetime.fromtimestamp(at / 1000, UTC).isoformat()
        given = {
            "AccessKeyId": credentials.get("accessKeyId"),
            "SecretAccessKey": credentials.get("secretAccessKey"),
            "Expiration": until,
        }
        return _keys({**given, "Token": credentials.get("sessionToken")}, what)

    def of_container(self) -> AwsKeys:
        """The keys of a task's or pod's role (``AWS_CONTAINER_CREDENTIALS_*``)."""
        relative, full = (self.environment.get(f"AWS_CONTAINER_CREDENTIALS_{kind}_URI") for kind in ("RELATIVE", "FULL"))
        address = f"http://169.254.170.2{relative}" if relative else full or ""
        parts = urlsplit(address)
        if parts.scheme != "https" and parts.hostname not in _CONTAINER_HOSTS:
            raise OptionError(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI must be an https address, or one of this machine: it gets a token"
            )
        token = self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if file := self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
            token = _read_text(Path(file), "the container's token")
        answer = self.ask(
            "GET", address, headers={"Authorization": token} if token else {}, timeout_s=_METADATA_TIMEOUT_S, by_proxy=False
        )
        return _of_metadata(answer, "the container gives no AWS keys")

    def of_instance(self) -> AwsKeys:
        """The keys of the instance's role."""
        if self.environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
            raise TerminalError("AWS_EC2_METADATA_DISABLED is set")
        host = self.environment.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
        here: dict[str, Any] = {"timeout_s": _METADATA_TIMEOUT_S, "by_proxy": False}
        token = self.ask("PUT", f"{host}/latest/api/token", headers=_TOKEN_LIFE, **here)
        if token.status != 200:
            raise TerminalError(f"the instance's metadata service gives no token (HTTP {token.status})")
        headers, place = {"X-aws-ec2-metadata-token": token.text.strip()}, f"{host}/latest/meta-data/iam/security-credentials/"
        roles = self.ask("GET", place, headers=headers, **here)
        if roles.status != 200 or not roles.text.strip():
            raise TerminalError("the instance has no role")
        role = roles.text.split()[0]
        return _of_metadata(self.ask("GET", f"{place}{role}", headers=headers, **here), "the instance gives no AWS keys")


def of_program(command: str) -> AwsKeys:
    """The keys that a profile's ``credential_process`` writes. Its other output is not shown, because it may contain keys."""
    what = "the credential_process of the AWS profile gives no keys"
    try:
        done = subprocess.run(
            shlex.split(command), capture_output=True, stdin=subprocess.DEVNULL, timeout=_PROGRAM_TIMEOUT_S, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as e:
        raise TerminalError(f"{what} ({type(e).__name__})") from None
    if done.returncode:
        raise TerminalError(f"{what} (exit code {done.returncode})")
    return _keys(_json(done.stdout, what), what, token="SessionToken")


def _read_text(file: Path, what: str) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as e:
        raise TerminalError(f"{what} cannot be read from {file} ({type(e).__name__})") from None


def _of_metadata(answer: ServiceResponse, what: str) -> AwsKeys:
    if answer.status != 200:
        raise _refused(what, answer)
    return _keys(_json(answer.body, what), what)


def _host(service: str, region: str | None) -> str:
    return f"{service}.{region}.amazonaws.com{'.cn' if region and region.startswith('cn-') else ''}"


def _element(text: str, name: str) -> str | None:
    match = re.search(rf"<{name}>([^<]*)</{name}>", text)
    return None if match is None else html.unescape(match[1]).strip()


def _json(body: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise TerminalError(f"{what}: its answer is not a JSON object")
    return document


def _keys(document: Mapping[str, Any], what: str, token: str = "Token") -> AwsKeys:
    key_id, secret, ends = document.get("AccessKeyId"), document.get("SecretAccessKey"), document.get("Expiration")
    session = document.get(token) or None
    if not isinstance(key_id, str) or not isinstance(secret, str) or not key_id or not secret:
        raise TerminalError(f"{what}: its answer has no AccessKeyId and SecretAccessKey")
    if session is not None and not isinstance(session, str):
        raise TerminalError(f"{what}: its {token} is not text")
    try:
        expires_at = None if ends is None else _time(ends)
    except ValueError:
        raise TerminalError(f"{what}: its answer has no time as Expiration") from None
    return AwsKeys(key_id, secret, session, expires_at)


def _time(text: object) -> datetime:
    """Raises ValueError."""
    if not isinstance(text, str):
        raise ValueError("must be text")
    time = datetime.fromisoformat(text.removesuffix("UTC"))
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _refused(what: str, answer: ServiceResponse) -> IcebergOpsError:
    code, text = _CODE.search(answer.text), _TEXT.search(answer.text)
    detail = " ".join(part for part in (f"HTTP {answer.status}", code and code[1], text and html.unescape(text[1])) if part)
    if answer.status == 429 or answer.status >= 500:
        return CatalogUnavailableError(f"{what} ({detail})")
    return TerminalError(f"{what} ({detail})")
