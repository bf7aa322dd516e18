"""Errors of the client: what failed, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class AskanceError(Exception):
    """A request or a check that failed. Nothing was allowed by it.

    ``code`` is the server's code (gateway/api/API.md), or one of the client's own:
    ``invalid_reply``, ``timeout``, ``denied``, ``untrusted``, ``unfinished``.
    """

    tool_ran = False  # the effect happened, but its result is not stored

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int = 0,
        retryable: bool = False,
        hint: str = "",
        call: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message}. {hint[0].upper()}{hint[1:]}" if hint else message)
        self.code = code
        self.status = status
        self.retryable = retryable
        self.hint = hint
        self.call = call
        self.retry_after = retry_after


class Invalid(AskanceError):
    """The request is wrong (400, 413): correct it."""


class Forbidden(AskanceError):
    """The credentials do not permit the request (401, 403)."""


class NotFound(AskanceError):
    """There is no such call, reply or session (404)."""


class Conflict(AskanceError):
    """The call is in another state, or its ids were used with different content (409)."""


class Unavailable(AskanceError):
    """askance cannot be reached or cannot answer now (429, 5xx). Nothing may run."""


class Untrusted(AskanceError):
    """A grant or a start reply is not proved to be an engine's, or others could replace a socket. Nothing may run."""


class CallDenied(AskanceError):
    """A wrapped function was not run; the message is the text for the model."""


class Unfinished(AskanceError):
    """Another process began this call and did not report. An operator must resolve it."""


class InvalidReply(AskanceError):
    """The reply is not from askance. Nothing may run."""


_BY_STATUS: dict[int, type[AskanceError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    429: Unavailable,
}
_PASSING = {429: "over_limit", 502: "unavailable", 503: "unavailable", 504: "unavailable"}


def make_problem(what: str, status: int, body: object, retry_after: float | None) -> AskanceError:
    """Make the error for a reply that is not a success."""
    known: Mapping[str, Any] = body if isinstance(body, dict) else {}

    def text(name: str) -> str:
        value = known.get(name)
        return value if isinstance(value, str) else ""

    code, call = text("code"), known.get("call")
    if not code and status not in _PASSING:
        return make_invalid_reply(what, f"the server replied with status {status} and no problem details", status)
    kind = _BY_STATUS.get(status, Unavailable)
    return kind(
        f"cannot {what}: {text('detail') or text('title') or f'the server replied with status {status}'}",
        code=code or _PASSING[status],
        status=status,
        retryable=status in _PASSING and code != "unknown_outcome",
        hint=text("hint"),
        call=call if isinstance(call, dict) else None,
        retry_after=retry_after,
    )


def make_invalid_reply(what: str, why: str, status: int = 0) -> InvalidReply:
    """Make the error for a reply that cannot be read."""
    return InvalidReply(
        f"cannot {what}: {why}",
        code="invalid_reply",
        status=status,
        hint="Check that the URL is that of an askance server",
    )
