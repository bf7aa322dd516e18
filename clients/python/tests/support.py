"""The application in the programs of docs/howto/python-frameworks.md: a test sets its model."""

from typing import TYPE_CHECKING, Any

model: Any = None

if TYPE_CHECKING:
    refund: Any
else:

    def refund(order: str, cents: int) -> str:
        """Pay an order back."""
        return f"refunded {cents} cents of {order}"
