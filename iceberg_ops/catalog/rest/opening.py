"""Opening a REST catalog: a client with the configured properties asks the server for further settings (``GET /v1/config``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import httpx

from iceberg_ops.catalog.rest.answers import Answer, refusal
from iceberg_ops.catalog.rest.authorization import make_authorization
from iceberg_ops.catalog.rest.connection import Connection, new_client
from iceberg_ops.catalog.rest.known_secrets import KnownSecrets
from iceberg_ops.catalog.rest.settings import ServerConfig, Settings, checked_uri, is_about_asking, request_headers, timeouts_s
from iceberg_ops.errors import CorruptTableError, OptionError, TerminalError


class Opening:
    """State that one catalog's connections share."""

    def __init__(
        self,
        catalog: str,
        transport: httpx.BaseTransport | None,
        environment: Mapping[str, str],
        seconds: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._catalog, self._transport, self._environment = catalog, transport, environment
        self._seconds, self._sleep = seconds, sleep
        self.secrets = KnownSecrets()

    def configured(self, properties: Mapping[str, str]) -> tuple[Connection, Settings]:
        """A connection, and the effective settings. Raises OptionError, CatalogUnavailableError, TerminalError."""
        if not properties.get("uri"):
            raise OptionError(f"catalog {self._catalog} (type rest) needs the property uri")
        uri = checked_uri("uri", properties["uri"])
        connection = self._connected(properties)
        config = self._asked(connection, uri, properties.get("warehouse"))
        merged = config.merged(properties)
        if _about_asking(merged) != _about_asking(properties):
            connection = self._connected(merged)
        return connection, Settings(merged, config.endpoints)

    def _connected(self, properties: Mapping[str, str]) -> Connection:
        self.secrets.add_properties(properties)
        uri = checked_uri("uri", properties["uri"])
        client = new_client(request_headers(properties), timeouts_s(properties), self._transport)
        plain = Connection(self._catalog, client, self.secrets, sleep=self._sleep)

        def ask_for_token(address: str, form: Mapping[str, str]) -> Answer:
            return plain.ask("POST", address, form=form)

        proof = make_authorization(properties, uri, self.secrets, ask_for_token, self._environment, self._seconds)
        return plain.authorized(proof)

    def _asked(self, connection: Connection, uri: str, warehouse: str | None) -> ServerConfig:
        answer = connection.ask("GET", f"{uri}/v1/config", params={"warehouse": warehouse} if warehouse else None)
        if not answer.is_success:
            if answer.status == 404:
                raise TerminalError(
                    f"catalog {self._catalog}: there is no catalog at {uri}/v1/config ({answer}): check the properties uri (it "
                    f"ends before /v1) and warehouse"
                )
            raise refusal(self._catalog, "asking for its configuration", answer)
        try:
            return ServerConfig.of(answer.document("a request for its configuration"))
        except CorruptTableError as e:
            raise TerminalError(f"catalog {self._catalog}: what is at {uri} is not an Iceberg REST catalog: {e}") from None


def _about_asking(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if is_about_asking(name)}
