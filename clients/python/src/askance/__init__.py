"""Client for askance: decide, ask about, run and prove the tool calls of AI agents."""

from ._async import AsyncClient, AsyncGate, AsyncRunnableCall, AsyncTool
from ._client import Client, Gate, RunnableCall, Tool
from ._core import ToolResult, idempotency_key
from ._errors import (
    AskanceError,
    CallDenied,
    Conflict,
    Forbidden,
    Invalid,
    InvalidReply,
    NotFound,
    Unavailable,
    Unfinished,
    Untrusted,
)
from ._outcomes import Allowed, Answered, Denied, Outcome, Proposal
from ._stream import Event
from ._tool import ToolSpec

__version__ = "0.1.0"

__all__ = [
    "Allowed",
    "Answered",
    "AskanceError",
    "AsyncClient",
    "AsyncGate",
    "AsyncRunnableCall",
    "AsyncTool",
    "CallDenied",
    "Client",
    "Conflict",
    "Denied",
    "Event",
    "Forbidden",
    "Gate",
    "Invalid",
    "InvalidReply",
    "NotFound",
    "Outcome",
    "Proposal",
    "RunnableCall",
    "Tool",
    "ToolResult",
    "ToolSpec",
    "Unavailable",
    "Unfinished",
    "Untrusted",
    "idempotency_key",
]
