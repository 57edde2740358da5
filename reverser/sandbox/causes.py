"""Field errors in the words of the API server: the `causes` of a 422 Status and the sentence that joins them.

Clients and people compare these texts, so they are made in one place, by the same constructors the Go library
has (`field.Required`, `field.Invalid`, …).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: The path of an error that concerns the whole object, as Go prints a nil path.
WHOLE = "<nil>"


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `details.causes`: `field` is a path such as `spec.ports[0].name`."""

    field: str
    reason: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """The entry as the Status carries it."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


def go_value(value: Any) -> str:
    """A value as the server prints it in an error: strings quoted, everything else as JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def required(field: str, detail: str = "") -> Cause:
    """A value that must be given."""
    return Cause(field, "FieldValueRequired", f"Required value: {detail}" if detail else "Required value")


def invalid(field: str, value: Any, detail: str) -> Cause:
    """A value that cannot be accepted."""
    return Cause(field, "FieldValueInvalid", f"Invalid value: {go_value(value)}: {detail}")


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    """A value of the wrong type."""
    return Cause(field, "FieldValueTypeInvalid", f"Invalid value: {go_value(value)}: {detail}")


def not_supported(field: str, value: Any, supported: Iterable[Any]) -> Cause:
    """A value outside an enumeration."""
    names = ", ".join(go_value(item) for item in supported)
    return Cause(
        field, "FieldValueNotSupported", f"Unsupported value: {go_value(value)}: supported values: {names}"
    )


def duplicate(field: str, value: Any) -> Cause:
    """A value that must be unique and is not."""
    return Cause(field, "FieldValueDuplicate", f"Duplicate value: {go_value(value)}")


def forbidden(field: str, detail: str) -> Cause:
    """A value that may not be set or changed."""
    return Cause(field, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(field: str, limit: int) -> Cause:
    """A string over its limit in bytes."""
    return Cause(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def too_many(field: str, count: int, limit: int) -> Cause:
    """A list or map with too many items."""
    return Cause(field, "FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")


def join(causes: Sequence[Cause]) -> str:
    """The causes as one sentence, as the `message` of the Status has them.

    Equal texts appear once; several are put in brackets.
    """
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
