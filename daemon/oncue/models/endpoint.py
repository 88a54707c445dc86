"""Where the configured model endpoint is, and what may be sent there (pure; T6, D79).

Everything here comes from the user's own configuration and environment, never from a workspace.
What is wrong is said without repeating it: a key pasted into the wrong field must not be printed.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from attrs import field, frozen

from oncue.models.secret import Secret
from oncue.settings import ModelEndpoint

DEFAULT_URLS: Mapping[str, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
MAX_HEADERS = 32
"""Gateways want a handful."""
MAX_VALUE_CHARACTERS = 8_192
"""The longest keys are signed tokens of 2 to 4 KB."""

_PATHS = {"openai": "/chat/completions", "anthropic": "/messages"}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_PRINTABLE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_TRANSFER = (
    "accept-encoding connection content-encoding content-length content-type expect host "
    "keep-alive proxy-authorization te trailer transfer-encoding upgrade"
)
_OURS = frozenset(_TRANSFER.split())


class EndpointError(ValueError):
    """The configuration cannot be used; the text names the key, never its value."""


@frozen
class Endpoint:
    """A checked configuration. Its repr shows no credential."""

    kind: Literal["openai", "anthropic"]
    url: str = field(repr=False)
    """Where requests go, path and query included."""
    origin: str
    """Scheme, host and port: what may be shown."""
    is_loopback: bool
    """On this machine: plain http is allowed, and no proxy is used."""
    model: str
    select_model: str
    """The model for choosing memories; where none is named, `model`."""
    key: Secret | None = None
    headers: tuple[tuple[str, Secret], ...] = ()
    """The user's own, which win over ours; values may be credentials."""

    def authorise(self, request: Any) -> Any:
        """Put the credentials into an `httpx.Request`: the one place where they are revealed."""
        if self.key is not None:
            if self.kind == "anthropic":
                request.headers["x-api-key"] = self.key.reveal()
            else:
                request.headers["authorization"] = f"Bearer {self.key.reveal()}"
        for name, value in self.headers:
            request.headers[name] = value.reveal()
        return request

    def scrub(self, data: bytes) -> bytes:
        """`data` without our credentials."""
        for secret in (self.key, *(value for _, value in self.headers)):
            if secret is not None:
                data = secret.scrub(data)
        return data


def resolve(settings: ModelEndpoint, environment: Mapping[str, str]) -> Endpoint:
    """The endpoint that `settings` mean; raises EndpointError."""
    parts = _split(settings.base_url or DEFAULT_URLS[settings.kind])
    if parts is None or not parts.hostname or parts.scheme not in ("http", "https"):
        raise EndpointError("model.baseUrl must be an address like https://api.example.com/v1")
    if "@" in parts.netloc:
        raise EndpointError(
            "model.baseUrl must not hold a user name or password: name an environment variable "
            "in model.apiKeyEnv, or set model.headers"
        )
    local = is_loopback(parts.hostname)
    if parts.scheme == "http" and not local:
        raise EndpointError("model.baseUrl must begin with https:// unless it is on this machine")
    if not settings.model:
        raise EndpointError("model.model must name the model to use")
    headers = tuple(_header(name, value) for name, value in settings.headers.items())
    if len(headers) > MAX_HEADERS:
        raise EndpointError(f"model.headers must not hold more than {MAX_HEADERS} headers")
    path = _path(settings.kind, parts.path)
    return Endpoint(
        kind=settings.kind,
        url=urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")),
        origin=f"{parts.scheme}://{parts.netloc}",
        is_loopback=local,
        model=settings.model,
        select_model=settings.select_model or settings.model,
        key=_key(settings.api_key_env, environment),
        headers=headers,
    )


def _split(url: str) -> SplitResult | None:
    if not _PRINTABLE.fullmatch(url) or " " in url:
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        return None
    return parts


def _path(kind: str, path: str) -> str:
    """What users write, with the API's own path behind it."""
    path = path.rstrip("/")
    if path.endswith(_PATHS[kind]):
        return path
    if not path or (kind == "anthropic" and not path.endswith("/v1")):
        path += "/v1"
    return path + _PATHS[kind]


def _key(name: str | None, environment: Mapping[str, str]) -> Secret | None:
    if not name:
        return None
    value = environment.get(name, "").strip()
    if not value:
        raise EndpointError(
            "model.apiKeyEnv names an environment variable that is not set where the daemon runs; "
            "it must be the variable's name, not the key"
        )
    return _secret("the key that model.apiKeyEnv names", value)


def _header(name: str, value: str) -> tuple[str, Secret]:
    if not _HEADER_NAME.fullmatch(name):
        raise EndpointError("model.headers holds a name that is no HTTP header's")
    if name.lower() in _OURS:
        raise EndpointError(f"model.headers must not set {name.lower()}: it belongs to transfer")
    return name, _secret("a value in model.headers", value)


def _secret(what: str, value: str) -> Secret:
    if len(value) > MAX_VALUE_CHARACTERS or not _PRINTABLE.fullmatch(value):
        raise EndpointError(
            f"{what} must be one line of at most {MAX_VALUE_CHARACTERS} printable ASCII characters"
        )
    return Secret(value)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by name or number; names are not looked up."""
    host = host.rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_leave(allowed: Iterable[str], workspaces: Iterable[str]) -> bool:
    """Whether what is said in `workspaces` (real absolute paths) may be sent to the endpoint:
    every one of them must be named, itself and not only a folder above it; `*` names all, also no
    workspace. Names are real absolute paths or `file:` URIs."""
    names = frozenset(plain_path(name) for name in allowed)
    if "*" in names:
        return True
    wanted = [plain_path(one) for one in workspaces]
    return bool(wanted) and all(one in names for one in wanted)


def plain_path(name: str) -> str:
    """A path as paths are compared: no `file:`, no slash at the end."""
    if name.startswith("file:"):
        parts = _split(name)
        name = "" if parts is None else unquote(parts.path)
    return name.rstrip("/") or ("/" if name else "")
