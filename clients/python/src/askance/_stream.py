"""Server-sent events: a parser without I/O, and what to do when a stream ends."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import _json
from ._core import PAUSES, Reply, Requests, Send, read_reply
from ._errors import AskanceError, make_invalid_reply

MAX_LINE = 4 << 20


@dataclass(frozen=True)
class Event:
    """One event of a stream: ``id`` to resume from, ``event`` its name, ``data`` its JSON value."""

    id: str
    event: str
    data: Any


class Parser:
    """Turns chunks of a stream into events, as the HTML standard defines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="strict")
        self._rest, self._after_return, self._first = "", False, True
        self._id, self._event, self._data = "", "", list[str]()

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str, str]]:
        """Take a chunk and return the events (id, name, data) that it completes."""
        text = self._decoder.decode(chunk)
        if self._first and text:
            text, self._first = text.removeprefix("\ufeff"), False
        if self._after_return and text:
            text, self._after_return = text.removeprefix("\n"), False
        self._after_return = self._after_return or text.endswith("\r")
        lines = (self._rest + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = lines.pop()
        if len(self._rest) > MAX_LINE:
            raise ValueError("a line of the stream is too long")
        for line in lines:
            if line:
                self._read_field(line)
                continue
            if self._data:
                yield self._id, self._event or "message", "\n".join(self._data)
            self._event, self._data = "", []

    def _read_field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\x00" not in value:
            self._id = value


@dataclass
class Follower:
    """Decides how a stream is opened, read and resumed; a driver does the I/O."""

    requests: Requests
    send: Send
    last_id: str = ""
    tries: int = 0
    parser: Parser = field(default_factory=Parser)
    failing_since: float | None = None

    def headers(self) -> dict[str, str]:
        self.parser = Parser()
        return {"Accept": "text/event-stream"} | ({"Last-Event-ID": self.last_id} if self.last_id else {})

    def is_stream(self, status: int, headers: Mapping[str, str]) -> bool:
        media = headers.get("content-type", "").split(";")[0].strip().lower()
        return status == 200 and media == "text/event-stream"

    def refuse(self, reply: Reply) -> NoReturn:
        """Raise the error of a response that is not a stream."""
        read_reply(self.send.what, reply)
        raise make_invalid_reply(self.send.what, "the reply is not a stream of events", reply.status)

    def feed(self, chunk: bytes) -> list[Event]:
        """Give the events that a chunk completes."""
        out = []
        try:
            for last, name, data in self.parser.feed(chunk):
                if name == "behind":  # the server ends the stream now
                    continue
                out.append(Event(last, name, _json.parse(data)))
                self.last_id = last or self.last_id
        except ValueError as err:
            raise make_invalid_reply(self.send.what, f"an event cannot be read: {err}") from err
        if out:
            self.tries, self.failing_since = 0, None
        return out

    def ended(self, err: AskanceError | None) -> float:
        """Give the pause before the stream is opened again, or raise the error."""
        now = self.requests.clock()
        if err is not None:
            if not err.retryable:
                raise err
            if self.failing_since is None:
                self.failing_since = now
            elif now - self.failing_since >= self.requests.patience:
                raise err
        pause = PAUSES[min(self.tries, len(PAUSES) - 1)]
        self.tries += 1
        return max(pause, (err.retry_after or 0.0) if err else 0.0)
