"""A function as a tool: name, description, schema, and the way from JSON arguments to a call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from . import _json, _schema
from ._errors import Invalid


class ToolSpec:
    """A tool as the model, the policy and the process that runs it see it."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        description: str = "",
        input_schema: Mapping[str, Any] | None = None,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool = False,
        open_world: bool = False,
    ) -> None:
        self.function = function
        self.name = name or getattr(function, "__name__", "")
        if not self.name or self.name == "<lambda>":
            raise Invalid("cannot make a tool: the function has no name", code="invalid", hint="Pass name=")
        self.description = description or _schema.read_description(function)
        self.is_async = _schema.is_async(function)
        self._parameters = None if input_schema is not None else _schema.make_parameters(function, self.name)
        self.input_schema: dict[str, Any] = dict(input_schema) if self._parameters is None else self._parameters.schema  # type: ignore[arg-type]
        self.hints = {
            "read_only": read_only,
            "destructive": destructive,
            "idempotent": idempotent,
            "open_world": open_world,
        }

    def define(self) -> dict[str, Any]:
        """Return the definition to declare with a proposal, or to show to a model."""
        out = {"name": self.name, "input_schema": self.input_schema, "annotations": self.hints}
        return out | ({"description": self.description} if self.description else {})

    def read_input(self, input: Any) -> dict[str, Any]:
        """Turn JSON arguments into the function's keyword arguments."""
        if self._parameters is not None:
            return self._parameters.read(input, "")  # type: ignore[no-any-return]
        if not isinstance(input, dict):
            raise Invalid(
                f"cannot run {self.name}: its arguments are not an object", code="invalid", hint="Send an object"
            )
        return input

    def write_input(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """Turn the arguments of a Python call into the JSON text to propose."""
        signature = inspect.signature(self.function)
        given = dict(signature.bind(*args, **kwargs).arguments)
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                given |= given.pop(parameter.name, {})
        return _json.write({name: _schema.write_value(value) for name, value in given.items()})

    def invoke(self, input: Any) -> Any:
        """Call the function with JSON arguments; an async function returns its coroutine."""
        return self.function(**self.read_input(input))


def copy_name(wrapper: Any, function: Callable[..., Any]) -> None:
    """Make a wrapper look like its function."""
    functools.update_wrapper(wrapper, function)
