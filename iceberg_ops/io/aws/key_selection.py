"""Finds AWS keys in a catalog's properties, the environment and the machine, in this order:

1. ``SERVICE.access-key-id`` and the properties beside it, else those of ``client.``
2. the profile of ``SERVICE.profile-name`` or ``client.profile-name``
3. ``AWS_ACCESS_KEY_ID`` and the variables beside it
4. the profile of ``AWS_PROFILE``, or the profile ``default``, if it gives keys
5. a web identity (``AWS_WEB_IDENTITY_TOKEN_FILE``), a container, the instance

With ``SERVICE.role-arn``, ``client.role-arn`` or ``client.assume-role.arn`` that role is assumed with these keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iceberg_ops.errors import IcebergOpsError, OptionError, TerminalError
from iceberg_ops.io.aws.asking import Ask, ask
from iceberg_ops.io.aws.keys import AwsKeys, KeySource, RenewedKeys
from iceberg_ops.io.aws.profiles import ProfileFiles, named_profile
from iceberg_ops.io.aws.sources import Role, Services, of_program

_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_MOST_PROFILES = 5
"""Profiles that name each other as source."""


@dataclass(frozen=True, slots=True)
class KeySelection:
    """``keys`` gets them when they are needed. ``region``: that of the profile. ``are_given``: the properties contain the keys."""

    keys: KeySource
    region: str | None = None
    are_given: bool = False


def select_keys(
    properties: Mapping[str, str], service: str, environment: Mapping[str, str] = os.environ, ask_services: Ask = ask
) -> KeySelection:
    """The keys for a service, ``s3``, ``glue`` or ``rest``. Nothing is asked yet. Raises OptionError for settings that contradict
    each other, for a profile that is named and is not there, and for one that a property names and that gives no keys: others would
    be somebody else's."""
    files, given = ProfileFiles.of(environment), _of_properties(properties, service)
    of_property = _first(properties, service, "profile-name")
    from_environment = _of_environment(environment) if given is None and of_property is None else None
    name, is_named = named_profile(environment, of_property)
    counts = given is None and from_environment is None
    profile = files.profile(name) if counts else {}
    if counts and is_named and not profile:
        raise OptionError(f"AWS profile {name!r} is not in {files.credentials} or {files.config}: correct AWS_PROFILE")
    region = profile.get("region")
    of_sts = properties.get("client.assume-role.region") or region or properties.get("client.region")
    of_sts = of_sts or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or properties.get(f"{service}.region")
    services = Services(environment, ask_services, of_sts)
    if given is not None:
        base: KeySource = _always(given)
    else:
        of_profile = _of_profile(name, files, services) if profile else None
        if of_profile is None and of_property is not None:
            raise OptionError(
                f"AWS profile {name!r} has no keys, no role, no single sign-on and no credential_process in {files.credentials} or "
                f"{files.config}: correct it, or do not name it"
            )
        base = of_profile or _of_machine(services, from_environment)
    if (role := _role(properties, service)) is not None:
        return KeySelection(RenewedKeys(lambda: services.assumed(role, base)), region)
    return KeySelection(base, region, given is not None)


def _always(keys: AwsKeys) -> KeySource:
    return lambda: keys


def _first(properties: Mapping[str, str], service: str, name: str) -> str | None:
    return properties.get(f"{service}.{name}") or properties.get(f"client.{name}") or None


def _of_properties(properties: Mapping[str, str], service: str) -> AwsKeys | None:
    for begun in (service, "client"):
        key_id, secret = properties.get(f"{begun}.access-key-id"), properties.get(f"{begun}.secret-access-key")
        if not key_id and not secret:
            continue
        if not key_id or not secret:
            raise OptionError(f"properties {begun}.access-key-id and {begun}.secret-access-key: set both, or none")
        return AwsKeys(key_id, secret, properties.get(f"{begun}.session-token") or None)
    return None


def _of_environment(environment: Mapping[str, str]) -> AwsKeys | None:
    key_id, secret = environment.get(_VARIABLES[0]), environment.get(_VARIABLES[1])
    return AwsKeys(key_id, secret, environment.get(_VARIABLES[2]) or None) if key_id and secret else None


def _role(properties: Mapping[str, str], service: str) -> Role | None:
    arn = _first(properties, service, "role-arn") or properties.get("client.assume-role.arn")
    if not arn:
        return None
    name = _first(properties, service, "role-session-name") or properties.get("client.assume-role.session-name")
    seconds = properties.get("client.assume-role.timeout-sec")
    if seconds and not (seconds.isascii() and seconds.isdigit()):
        raise OptionError(f"property client.assume-role.timeout-sec {seconds!r}: must be a whole number of seconds")
    return Role(
        arn, name or "iceberg-ops", properties.get("client.assume-role.external-id") or None, int(seconds) if seconds else None
    )


def _of_machine(services: Services, from_environment: AwsKeys | None) -> KeySource:
    """Keys of the environment (``own``), a web identity, a container or the instance."""
    environment = services.environment
    if from_environment is not None:
        return _always(from_environment)
    if (file := environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")) and (arn := environment.get("AWS_ROLE_ARN")):
        role, path = Role(arn, environment.get("AWS_ROLE_SESSION_NAME") or "iceberg-ops"), Path(file)
        return RenewedKeys(lambda: services.of_web_identity(role, path))
    if any(environment.get(f"AWS_CONTAINER_CREDENTIALS_{kind}_URI") for kind in ("RELATIVE", "FULL")):
        return RenewedKeys(services.of_container)
    return RenewedKeys(lambda: _of_instance(services))


def _of_instance(services: Services) -> AwsKeys:
    try:
        return services.of_instance()
    except IcebergOpsError as e:
        raise TerminalError(
            "no AWS credentials were found: set them in the catalog's properties, in the environment or in a profile (the last "
            f"source that was tried: {e})"
        ) from None


def _of_profile(name: str, files: ProfileFiles, services: Services, depth: int = 0) -> KeySource | None:
    """The source of keys that a profile names; None if it names none. Raises OptionError."""
    settings = files.profile(name)
    if arn := settings.get("role_arn"):
        return _of_role(name, arn, settings, files, services, depth)
    if "aws_access_key_id" in settings:
        return lambda: _in_files(name, files)
    if "sso_session" in settings or "sso_start_url" in settings:
        cache = files.folder / "sso" / "cache"
        return RenewedKeys(
            lambda: services.of_single_sign_on(files.profile(name), files.session(settings.get("sso_session", "")), cache)
        )
    if "credential_process" in settings:
        return RenewedKeys(lambda: of_program(settings["credential_process"]))
    return None


def _of_role(name: str, arn: str, settings: Mapping[str, str], files: ProfileFiles, services: Services, depth: int) -> KeySource:
    if "mfa_serial" in settings:
        raise OptionError(f"AWS profile {name!r} asks for a code (mfa_serial), which no job can give: use a profile without it")
    role = Role(arn, settings.get("role_session_name", "iceberg-ops"), settings.get("external_id"), _seconds(name, settings))
    if file := settings.get("web_identity_token_file"):
        return RenewedKeys(lambda: services.of_web_identity(role, Path(file)))
    base: KeySource | None = None
    if source := settings.get("source_profile"):
        if depth >= _MOST_PROFILES:
            raise OptionError(f"AWS profile {name!r}: source_profile leads from profile to profile: name one that has keys")
        base = (lambda: _in_files(name, files)) if source == name else _of_profile(source, files, services, depth + 1)
    elif (kind := settings.get("credential_source")) == "Environment":
        from_environment = _of_environment(services.environment)
        base = None if from_environment is None else _always(from_environment)
    elif kind == "EcsContainer":
        base = RenewedKeys(services.of_container)
    elif kind == "Ec2InstanceMetadata":
        base = RenewedKeys(services.of_instance)
    if base is None:
        raise OptionError(f"AWS profile {name!r}: its role needs a source_profile or credential_source that gives keys")
    base_keys = base
    return RenewedKeys(lambda: services.assumed(role, base_keys))


def _seconds(name: str, settings: Mapping[str, str]) -> int | None:
    text = settings.get("duration_seconds")
    if text is not None and not (text.isascii() and text.isdigit()):
        raise OptionError(f"AWS profile {name!r}: duration_seconds must be a whole number")
    return None if text is None else int(text)


def _in_files(name: str, files: ProfileFiles) -> AwsKeys:
    """The keys as the files have them now. Raises TerminalError."""
    settings = files.profile(name)
    key_id, secret = settings.get("aws_access_key_id"), settings.get("aws_secret_access_key")
    if not key_id or not secret:
        raise TerminalError(f"AWS profile {name!r} has no aws_access_key_id and aws_secret_access_key in its files")
    return AwsKeys(key_id, secret, settings.get("aws_session_token") or None)
