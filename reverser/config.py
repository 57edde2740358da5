"""Every setting of the product: one table, read from the environment, checked whole before anything starts.

A setting ``author_attribution_grace`` is the environment variable ``REVERSER_AUTHOR_ATTRIBUTION_GRACE``
and, where a command takes flags, ``--author-attribution-grace``. A variable with the suffix ``_FILE``
names a file that holds the value (for mounted Secrets). All problems are reported together.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from reverser.errors import SettingsInvalid
from reverser.quantities import Address, parse_address, parse_duration, parse_quantity

PREFIX = "REVERSER_"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Setting(NamedTuple):
    """One row of the table: how a text becomes a value, its default as text, and what it means."""

    parse: Callable[[str], Any]
    default: str
    help: str
    secret: bool = False


def _text(value: str) -> str:
    return value


def _flag(value: str) -> bool:
    lowered = value.strip().lower()
    if lowered in {"1", "true", "yes", "on"}:
        return True
    if lowered in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError(f"{value!r} is neither true nor false")


def _optional_flag(value: str) -> bool | None:
    return None if value.strip() == "" else _flag(value)


def _positive_duration(value: str) -> float:
    seconds = parse_duration(value)
    if seconds <= 0:
        raise ValueError(f"{value!r} must be more than 0")
    return seconds


def _duration(value: str) -> float:
    seconds = parse_duration(value)
    if seconds < 0:
        raise ValueError(f"{value!r} must not be negative")
    return seconds


def _size(value: str) -> int:
    size = parse_quantity(value)
    if size <= 0:
        raise ValueError(f"{value!r} must be more than 0")
    return size


def _count(value: str) -> int:
    if not value.strip().isdigit() or int(value) <= 0:
        raise ValueError(f"{value!r} is not a whole number above 0")
    return int(value)


def _percent(value: str) -> int:
    if not value.strip().isdigit() or int(value) > 100:
        raise ValueError(f"{value!r} is not a whole number from 0 (off) to 100")
    return int(value)


def _path(value: str) -> Path:
    return Path(value).expanduser().absolute()


def _optional_path(value: str) -> Path | None:
    return _path(value) if value else None


def parse_sensitive_resources(value: str) -> frozenset[str]:
    """``resource`` or ``group/resource``, comma separated; ``secrets`` is always in.

    Raises ValueError that names the entry.
    """
    found = {"secrets"}
    if value.strip() == "":
        return frozenset(found)
    for entry in value.split(","):
        parts = [part.strip().lower() for part in entry.split("/")]
        if not entry.strip():
            raise ValueError(f'invalid additional sensitive resource "{entry}": it is empty')
        if len(parts) > 2 or not all(parts):
            raise ValueError(
                f'invalid additional sensitive resource "{entry}": write resource or group/resource'
            )
        found.add("/".join(parts))
    return frozenset(found)


def _prefix(value: str) -> str:
    # Without one, a local account of a person would be the cluster's user of that name.
    if not value.strip() or value.startswith("system:"):
        raise ValueError("it must not be empty, nor begin with system:")
    return value


def _names(value: str) -> frozenset[str]:
    return frozenset(name.strip() for name in value.split(",") if name.strip())


def _issuer(value: str) -> str:
    if not value:
        return value
    parts = urlsplit(value)
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"{value!r} is not the https:// address of an issuer")
    if parts.scheme != "https" and (parts.scheme != "http" or parts.hostname not in _LOOPBACK):
        raise ValueError(f"{value!r} must begin with https://")
    return value


def _endpoint(value: str) -> str:
    if not value:
        return value
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.username:
        raise ValueError("write http://host:port or https://host:port, without credentials")
    return value


def _log_format(value: str) -> str:
    if value not in {"text", "json"}:
        raise ValueError(f"{value!r} is neither text nor json")
    return value


def _log_level(value: str) -> str:
    level = value.strip().lower()
    if level not in {"debug", "info", "warning", "error"}:
        raise ValueError(f"{value!r} is not one of debug, info, warning, error")
    return level


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The settings of one process, parsed. Field names are the setting names in lower case."""

    redis_url: str
    broker_url: str
    database_url: str
    state_dir: Path
    http_addr: Address
    audit_addr: Address
    audit_cert_dir: Path | None
    audit_client_ca: Path | None
    audit_client_names: str
    audit_insecure: bool
    audit_max_request_body_bytes: int
    audit_read_timeout: float
    audit_write_timeout: float
    audit_idle_timeout: float
    admission_addr: Address
    admission_cert_dir: Path | None
    admission_client_ca: Path | None
    health_addr: Address
    metrics_addr: Address
    metrics_cert_dir: Path | None
    metrics_client_ca: Path | None
    otlp_endpoint: str
    command_namespace: str
    digest_key_file: Path | None
    author_attribution: bool
    author_attribution_ttl: float
    author_attribution_grace: float
    branch_buffer_max_size: int
    target_journal_max_size: int
    branch_journal_max_size: int
    additional_sensitive_resources: frozenset[str]
    default_known_hosts_configmap: str
    insecure_allow_missing_known_hosts: bool
    noise_filter: bool
    sweep_brake: int
    worker_threads: int
    history_retention: float
    secret_key: str
    allowed_hosts: str
    tls_proxy: bool
    session_user_prefix: str
    rest_rate: int
    login_rate: int
    oidc_issuer: str
    oidc_client_id: str
    oidc_client_secret: str
    oidc_scopes: str
    oidc_username_claim: str
    oidc_groups_claim: str
    oidc_viewer_groups: frozenset[str]
    oidc_operator_groups: frozenset[str]
    log_format: str
    log_level: str


SETTINGS: dict[str, Setting] = {
    "redis_url": Setting(
        _text,
        "",
        "Redis or Valkey that holds the journal: redis://, rediss://, unix://, redis+sentinel:// or "
        "rediss+sentinel:// (up and demo start one)",
        True,
    ),
    "broker_url": Setting(_text, "", "Celery's broker, where it is not the Redis above", True),
    "database_url": Setting(_text, "", "history database; SQLite in the state directory if empty", True),
    "state_dir": Setting(_path, "./.state", "clones, embedded Valkey and SQLite files, demo repository"),
    "http_addr": Setting(parse_address, "127.0.0.1:8000", "admin, REST, health and metrics of web"),
    "audit_addr": Setting(parse_address, "0.0.0.0:9444", "listener of /audit-webhook"),
    "audit_cert_dir": Setting(_optional_path, "", "folder with tls.crt and tls.key of the audit listener"),
    "audit_client_ca": Setting(
        _optional_path, "", "CA file that audit clients' certificates must be issued by"
    ),
    "audit_client_names": Setting(
        _text, "", "comma separated common names allowed to post audit events; empty = any of the CA"
    ),
    "audit_insecure": Setting(
        _flag, "false", "serve the audit listener without TLS and without client check"
    ),
    "audit_max_request_body_bytes": Setting(_count, "10485760", "largest audit request body"),
    "audit_read_timeout": Setting(_positive_duration, "15s", "time to receive an audit request"),
    "audit_write_timeout": Setting(_positive_duration, "30s", "time to send an audit answer"),
    "audit_idle_timeout": Setting(_positive_duration, "60s", "time a quiet audit connection is kept"),
    "admission_addr": Setting(parse_address, "0.0.0.0:9443", "listener of /validate-operator-types"),
    "admission_cert_dir": Setting(
        _optional_path, "", "folder with tls.crt and tls.key of the admission listener; empty = off"
    ),
    "admission_client_ca": Setting(
        _optional_path,
        "",
        "CA file that admission clients' certificates must be issued by; empty = none are asked for",
    ),
    "health_addr": Setting(parse_address, "0.0.0.0:8081", "health and metrics of watcher, worker and beat"),
    "metrics_addr": Setting(
        parse_address, "0.0.0.0:8443", "listener of the metrics over TLS, in every process"
    ),
    "metrics_cert_dir": Setting(
        _optional_path,
        "",
        "folder with tls.crt and tls.key of the metrics listener; empty = metrics on the plain addresses",
    ),
    "metrics_client_ca": Setting(
        _optional_path,
        "",
        "CA file that scrapers' certificates must be issued by; empty = a bearer token that may get /metrics",
    ),
    "otlp_endpoint": Setting(
        _endpoint,
        "",
        "collector to push metrics to by OTLP over HTTP, such as http://collector:4318; empty = off",
    ),
    "command_namespace": Setting(
        _text, "", "namespace of the Lease and the digest key; POD_NAMESPACE if empty"
    ),
    "digest_key_file": Setting(
        _optional_path,
        "",
        "file that keeps the key of sealed digests, instead of a Secret in the command namespace",
    ),
    "author_attribution": Setting(
        _optional_flag,
        "",
        "name authors from the audit stream; on when audit certificates (or audit-insecure) are given",
    ),
    "author_attribution_ttl": Setting(_positive_duration, "15m", "how long an audit fact is kept"),
    "author_attribution_grace": Setting(
        _duration, "3s", "how long a change waits for its author; 0 looks once"
    ),
    "branch_buffer_max_size": Setting(_size, "8Mi", "bytes of YAML in one commit window"),
    "target_journal_max_size": Setting(
        _size, "256Mi", "unsettled journal bytes of one target before it stops reading"
    ),
    "branch_journal_max_size": Setting(
        _size, "512Mi", "unsettled journal bytes of one branch before its targets stop reading"
    ),
    "additional_sensitive_resources": Setting(
        parse_sensitive_resources,
        "",
        "types sealed like Secrets: resource or group/resource, comma separated; plural, kind or short name",
    ),
    "default_known_hosts_configmap": Setting(
        _text, "", "ConfigMap in the command namespace with known_hosts lines for all GitProviders"
    ),
    "insecure_allow_missing_known_hosts": Setting(
        _flag, "false", "allow ssh where no source gives any host key (dangerous)"
    ),
    "noise_filter": Setting(
        _flag, "true", "leave out cluster noise: root CA bundles, token and Helm Secrets, owned objects"
    ),
    "sweep_brake": Setting(
        _percent, "0", "hold a replay that would delete more than this per cent of a type; 0 = off"
    ),
    "worker_threads": Setting(_count, "4", "branches one worker process writes at the same time"),
    "history_retention": Setting(_positive_duration, "2160h", "how long history rows are kept"),
    "secret_key": Setting(
        _text, "", "Django's signing key; generated into the state directory if empty", True
    ),
    "allowed_hosts": Setting(
        _text, "localhost,127.0.0.1,[::1]", "comma separated host names that web answers to"
    ),
    "tls_proxy": Setting(
        _flag,
        "false",
        "web is reached through a proxy that ends TLS and sets X-Forwarded-Proto: cookies are sent over "
        "HTTPS only",
    ),
    "session_user_prefix": Setting(
        _prefix,
        "gitops-reverser:",
        "put before the name and the groups of a person logged in to the admin when Kubernetes is asked "
        "what they may do",
    ),
    "rest_rate": Setting(_count, "600", "REST requests a minute for one caller"),
    "login_rate": Setting(
        _count, "10", "failed logins in ten minutes, of one name or from one address, before web refuses more"
    ),
    "oidc_issuer": Setting(
        _issuer,
        "",
        "OpenID Connect issuer to log in to the admin with; empty = local people only",
    ),
    "oidc_client_id": Setting(_text, "", "the client that web is to the issuer"),
    "oidc_client_secret": Setting(_text, "", "that client's secret", True),
    "oidc_scopes": Setting(_text, "openid email profile", "scopes to ask the issuer for"),
    "oidc_username_claim": Setting(_text, "preferred_username", "claim that a person is named by"),
    "oidc_groups_claim": Setting(_text, "groups", "claim that lists a person's groups"),
    "oidc_viewer_groups": Setting(
        _names, "", "comma separated groups of the issuer whose members may see everything"
    ),
    "oidc_operator_groups": Setting(
        _names, "", "comma separated groups of the issuer whose members may also act"
    ),
    "log_format": Setting(_log_format, "text", "text for people, json for machines"),
    "log_level": Setting(_log_level, "info", "debug, info, warning or error"),
}


def variable_name(setting: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + setting.upper()


def flag_name(setting: str) -> str:
    """The command-line flag of a setting."""
    return "--" + setting.replace("_", "-")


def _read_text(environ: Mapping[str, str], setting: str, problems: list[str]) -> str | None:
    name = variable_name(setting)
    if name in environ:
        return environ[name]
    file_name = environ.get(f"{name}_FILE")
    if file_name:
        try:
            return Path(file_name).read_text(encoding="utf-8").rstrip("\n")
        except OSError as error:
            problems.append(f"{name}_FILE: cannot read {file_name}: {error.strerror}")
    return None


def load_config(environ: Mapping[str, str] | None = None) -> Config:
    """Parse and cross-check every setting. Raises SettingsInvalid with all problems at once."""
    source = os.environ if environ is None else environ
    problems: list[str] = []
    values: dict[str, Any] = {}
    for name, setting in SETTINGS.items():
        text = _read_text(source, name, problems)
        try:
            values[name] = setting.parse(setting.default if text is None else text)
        except ValueError as error:
            shown = "the value cannot be used" if setting.secret else str(error)
            problems.append(f"{variable_name(name)}: {shown}")
            values[name] = setting.parse(setting.default)
    known = {variable_name(name) for name in SETTINGS} | {f"{variable_name(name)}_FILE" for name in SETTINGS}
    problems.extend(
        f"{name}: there is no such setting" for name in sorted(source) if _is_unknown(name, known)
    )
    values["command_namespace"] = (
        values["command_namespace"] or source.get("POD_NAMESPACE", "") or "gitops-reverser"
    )
    problems.extend(_attribution_problems(values))
    problems.extend(_oidc_problems(values))
    if problems:
        raise SettingsInvalid(problems)
    return Config(**{item.name: values[item.name] for item in fields(Config)})


# Variables that share the prefix but belong to the test suite, not to the product.
_NOT_SETTINGS = frozenset({"REVERSER_TEST_ALL", "REVERSER_TEST_ALL_SLOW", "REVERSER_TEST_DATABASE_URL"})


# What Kubernetes itself injects for a Service whose name begins with the prefix.
_SERVICE_LINK = re.compile(r"(_SERVICE_HOST|_SERVICE_PORT(_\w+)?|_PORT|_PORT_\d+_\w+)$")


def _is_unknown(name: str, known: set[str]) -> bool:
    if not name.startswith(PREFIX) or name in known or name in _NOT_SETTINGS:
        return False
    return _SERVICE_LINK.search(name) is None


def _oidc_problems(values: Mapping[str, Any]) -> list[str]:
    if not values["oidc_issuer"]:
        return []
    missing = [name for name in ("oidc_client_id", "oidc_client_secret") if not values[name]]
    if not values["oidc_viewer_groups"] | values["oidc_operator_groups"]:
        missing.append("oidc_viewer_groups")
    return [f"{variable_name(name)}: it must be set where REVERSER_OIDC_ISSUER is" for name in missing]


def _attribution_problems(values: dict[str, Any]) -> list[str]:
    """Decide whether attribution is on, and say what it lacks where it was asked for."""
    has_tls = values["audit_cert_dir"] is not None and values["audit_client_ca"] is not None
    possible = has_tls or values["audit_insecure"]
    asked = values["author_attribution"]
    values["author_attribution"] = possible if asked is None else asked
    if asked and not possible:
        return [
            "REVERSER_AUTHOR_ATTRIBUTION: it is on but the audit listener has no certificates; set "
            "REVERSER_AUDIT_CERT_DIR and REVERSER_AUDIT_CLIENT_CA (or REVERSER_AUDIT_INSECURE=true), "
            "or turn attribution off"
        ]
    return []
