"""Client for askance: decide, ask about, run and prove the tool calls of AI agents."""

from ._async import AsyncClient, AsyncGate, AsyncRunnableCall, AsyncTool
from ._client import Client, Gate, HasSpec, RunnableCall, Tool
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
from ._worker import AsyncWorker, Task, Worker, current_task

__version__ = "0.1.0"

__all__ = [
    "Allowed",
    "Answered",
    "AskanceError",
    "AsyncClient",
    "AsyncGate",
    "AsyncRunnableCall",
    "AsyncTool",
    "AsyncWorker",
    "CallDenied",
    "Client",
    "Conflict",
    "Denied",
    "Event",
    "Forbidden",
    "Gate",
    "HasSpec",
    "Invalid",
    "InvalidReply",
    "NotFound",
    "Outcome",
    "Proposal",
    "RunnableCall",
    "Task",
    "Tool",
    "ToolResult",
    "ToolSpec",
    "Unavailable",
    "Unfinished",
    "Untrusted",
    "Worker",
    "current_task",
    "idempotency_key",
]
