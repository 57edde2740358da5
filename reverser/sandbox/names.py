"""The naming rules of Kubernetes, with the sentences the API server refuses a name with."""

import re

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")

LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_MESSAGE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
CONFIG_KEY_MESSAGE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def too_long_message(limit: int) -> str:
    """The sentence for a name over its limit."""
    return f"must be no more than {limit} bytes"


def is_label(text: str) -> bool:
    """RFC 1123 label of at most 63 characters."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """RFC 1123 subdomain of at most 253 characters."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def label_errors(text: str) -> list[str]:
    """Complaints about a name that must be an RFC 1123 label (namespaces)."""
    return _errors(text, 63, _LABEL, LABEL_MESSAGE)


def subdomain_errors(text: str) -> list[str]:
    """Complaints about a name that must be a subdomain (most objects)."""
    return _errors(text, 253, _SUBDOMAIN, SUBDOMAIN_MESSAGE)


def path_segment_errors(text: str) -> list[str]:
    """Complaints about a name that must only be usable in a URL path (RBAC objects)."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{sign}'" for sign in "/%" if sign in text]


def qualified_name_errors(text: str) -> list[str]:
    """Complaints about a label or annotation key: an optional subdomain prefix, a slash, a name."""
    prefix, slash, name = text.rpartition("/")
    found = []
    if text.count("/") > 1:
        return [
            "a qualified name " + QUALIFIED_MESSAGE.removeprefix("name part ") + " with an optional DNS "
            "subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    if slash and not prefix:
        found.append("prefix part must be non-empty")
    elif slash:
        found += [f"prefix part {message}" for message in subdomain_errors(prefix)]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > 63:
        found.append(f"name part {too_long_message(63)}")
    if not _QUALIFIED.fullmatch(name):
        found.append(QUALIFIED_MESSAGE)
    return found


def label_value_errors(text: str) -> list[str]:
    """Complaints about a label value."""
    found = [too_long_message(63)] if len(text) > 63 else []
    if text and not _QUALIFIED.fullmatch(text):
        found.append(LABEL_VALUE_MESSAGE)
    return found


def config_key_errors(text: str) -> list[str]:
    """Complaints about a key of a ConfigMap or Secret."""
    found = [too_long_message(253)] if len(text) > 253 else []
    if not _CONFIG_KEY.fullmatch(text):
        found.append(CONFIG_KEY_MESSAGE)
    if text == ".":
        found.append("must not be '.'")
    elif text.startswith(".."):
        found.append("must not be '..'" if text == ".." else "must not start with '..'")
    return found


def _errors(text: str, limit: int, pattern: "re.Pattern[str]", message: str) -> list[str]:
    found = [too_long_message(limit)] if len(text) > limit else []
    if not pattern.fullmatch(text):
        found.append(message)
    return found
