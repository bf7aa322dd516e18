"""Settings of a connection, and requests as httpx takes them."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from . import _json
from ._core import Reply, Send
from ._errors import Invalid, Unavailable, Untrusted

DEFAULT_URL = "http://127.0.0.1:8787"
CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 45.0
ANSWER_SECONDS = 35.0  # the server answers after 30 at the latest
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)  # each waiting call holds a connection
LARGEST_BODY = 768 << 10  # the server closes the connection of a larger one, which looks like no reply


def is_usable(url: str) -> bool:
    """Report whether requests can be sent to a URL."""
    try:
        parts, host = urlsplit(url), httpx.URL(url).host
    except (ValueError, httpx.InvalidURL):
        return False
    return parts.scheme in ("http", "https") and host != "" and not parts.query and not parts.fragment


def check_socket(path: str) -> None:
    """Refuse a socket that another user could have put there while the server is down."""
    at = path
    for _ in range(40):  # symbolic links, each in a folder that is checked as well
        target = check_folders(path, at)
        if target is None:
            return
        at = target
    raise Untrusted(
        f"cannot use the socket {path}: it has too many symbolic links", code="untrusted", hint="Name the socket itself"
    )


def check_folders(path: str, at: str) -> str | None:
    """Check the folders of a path up to its first symbolic link; return the path without that link."""
    folder, names = "/", [name for name in at.split("/") if name not in ("", ".")]
    for i, name in enumerate(names):
        if name == "..":  # the folder above a link's target, not above the link
            folder = os.path.dirname(folder)
            continue
        file = os.path.join(folder, name)
        mode = os.stat(folder).st_mode if os.path.exists(folder) else 0
        is_kept = bool(mode & stat.S_ISVTX) and i + 1 < len(names) and is_ours(file)
        if mode & 0o022 and not is_kept:
            raise Untrusted(
                f"cannot use the socket {path}: other users can write to {folder} and put another one there",
                code="untrusted",
                hint="Start askance serve with --http-socket in a folder that only its user can write",
            )
        if os.path.islink(file):
            return os.path.join(folder, os.readlink(file), *names[i + 1 :])
        folder = file
    return None


def is_ours(path: str) -> bool:
    """Report whether a path belongs to this user or to root, so that others cannot replace it in a sticky folder."""
    return os.path.lexists(path) and os.lstat(path).st_uid in (0, os.geteuid())


@dataclass(frozen=True)
class Settings:
    """The server's URL and the client's credentials."""

    url: str
    token: str
    socket: str | None = None  # the path of a Unix socket

    @classmethod
    def read(cls, url: str | None, token: str | None) -> Settings:
        """Take the settings from the arguments, or from ASKANCE_URL and ASKANCE_TOKEN."""
        url = (url or os.environ.get("ASKANCE_URL") or DEFAULT_URL).rstrip("/")
        token = token if token is not None else os.environ.get("ASKANCE_TOKEN", "")
        socket = None
        if url.startswith("unix:///"):
            url, socket = "http://localhost", url.removeprefix("unix://")
        if not is_usable(url):
            raise Invalid(
                f"cannot use the URL {url!r}", code="invalid", hint="Write it as https://host:port or unix:///path"
            )
        if not token.isascii() or not token.isprintable():
            raise Invalid(
                "cannot use the token: it has other than printable ASCII letters",
                code="invalid",
                hint="Set ASKANCE_TOKEN",
            )
        return cls(url, token, socket)

    @property
    def server(self) -> str:
        """The URL as the user writes it."""
        return f"unix://{self.socket}" if self.socket else self.url

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def target(self, send: Send) -> str:
        if self.socket:
            check_socket(self.socket)
        query = urlencode(send.query, quote_via=quote)
        return self.url + send.path + (f"?{query}" if query else "")

    def arguments(self, send: Send) -> dict[str, Any]:
        """The arguments of httpx for a request."""
        headers = self.headers() | {"Accept": "application/json, application/problem+json"}
        if send.key:
            headers["Idempotency-Key"] = send.key
        limit = float("inf") if send.within is None else send.within
        out: dict[str, Any] = {
            "method": send.method,
            "url": self.target(send),
            "headers": headers,
            "timeout": httpx.Timeout(min(limit, ANSWER_SECONDS + send.held), connect=min(limit, CONNECT_SECONDS)),
        }
        if send.body is not None:
            headers["Content-Type"] = "application/json"
            content = out["content"] = _json.write(send.body).encode()
            if len(content) > LARGEST_BODY:
                raise Invalid(
                    f"cannot {send.what}: the body has {len(content)} bytes, the limit is {LARGEST_BODY}",
                    code="too_large",
                    status=413,
                    hint="Store large data elsewhere and send a reference",
                )
        return out

    def stream(self, send: Send, headers: dict[str, str]) -> dict[str, Any]:
        """The arguments of httpx for a stream; the server sends something every 15 seconds."""
        return {
            "method": send.method,
            "url": self.target(send),
            "headers": self.headers() | headers,
            "timeout": httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
        }


def read_response(response: httpx.Response) -> Reply:
    return Reply(response.status_code, dict(response.headers), response.content)


def make_unreachable(what: str, url: str, err: Exception) -> Unavailable:
    """Make the error for a request that got no response."""
    return Unavailable(
        f"cannot {what}: askance at {url} does not answer ({str(err) or type(err).__name__})",
        code="unavailable",
        retryable=True,
        hint="Check that askance serve runs and that the URL is right",
    )
