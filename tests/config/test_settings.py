"""Settings: what each text means, what is refused, and that all problems are told at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reverser.config import SETTINGS, load_config, parse_sensitive_resources, variable_name
from reverser.errors import SettingsInvalid
from reverser.quantities import Address

MIB = 1024 * 1024

# Setting, a text, its value, and a text that is refused ("" where any text will do).
TABLE: list[tuple[str, str, Any, str]] = [
    ("redis_url", "redis://valkey:6379/0", "redis://valkey:6379/0", ""),
    ("broker_url", "redis://broker:6379/1", "redis://broker:6379/1", ""),
    ("database_url", "postgres://db/reverser", "postgres://db/reverser", ""),
    ("state_dir", "/state", Path("/state"), ""),
    ("http_addr", "0.0.0.0:80", Address("0.0.0.0", 80), "nowhere"),
    ("audit_addr", ":9444", Address("", 9444), "0.0.0.0:many"),
    ("audit_cert_dir", "/certificates", Path("/certificates"), ""),
    ("audit_client_ca", "/ca.crt", Path("/ca.crt"), ""),
    ("audit_client_names", "kube-apiserver", "kube-apiserver", ""),
    ("audit_insecure", "true", True, "perhaps"),
    ("audit_max_request_body_bytes", "1024", 1024, "0"),
    ("audit_read_timeout", "1m30s", 90.0, "0s"),
    ("audit_write_timeout", "500ms", 0.5, "-1s"),
    ("audit_idle_timeout", "2m", 120.0, "soon"),
    ("admission_addr", "[::1]:9443", Address("::1", 9443), "9443"),
    ("admission_cert_dir", "/certificates", Path("/certificates"), ""),
    ("admission_client_ca", "/ca.crt", Path("/ca.crt"), ""),
    ("health_addr", "127.0.0.1:8082", Address("127.0.0.1", 8082), "127.0.0.1"),
    ("metrics_addr", "127.0.0.1:9000", Address("127.0.0.1", 9000), "9000"),
    ("metrics_cert_dir", "/certificates", Path("/certificates"), ""),
    ("metrics_client_ca", "/ca.crt", Path("/ca.crt"), ""),
    ("otlp_endpoint", "http://collector:4318", "http://collector:4318", "collector:4318"),
    ("command_namespace", "tools", "tools", ""),
    ("digest_key_file", "/state/digest-key", Path("/state/digest-key"), ""),
    ("author_attribution", "false", False, "maybe"),
    ("author_attribution_ttl", "1h", 3600.0, "0"),
    ("author_attribution_grace", "0", 0.0, "-3s"),
    ("branch_buffer_max_size", "16Mi", 16 * MIB, "0"),
    ("target_journal_max_size", "1Gi", 1024 * MIB, "-1"),
    ("branch_journal_max_size", "2Gi", 2048 * MIB, "big"),
    (
        "additional_sensitive_resources",
        "Vaults.example.com/Credentials, tokens",
        frozenset({"secrets", "vaults.example.com/credentials", "tokens"}),
        "a/b/c",
    ),
    ("default_known_hosts_configmap", "known-hosts", "known-hosts", ""),
    ("insecure_allow_missing_known_hosts", "1", True, "dangerous"),
    ("noise_filter", "off", False, "some"),
    ("sweep_brake", "50", 50, "101"),
    ("worker_threads", "8", 8, "0"),
    ("history_retention", "24h", 86400.0, "0h"),
    ("secret_key", "long-and-random", "long-and-random", ""),
    ("allowed_hosts", "reverser.example.com", "reverser.example.com", ""),
    ("tls_proxy", "yes", True, "sometimes"),
    ("session_user_prefix", "admin:", "admin:", "system:"),
    ("rest_rate", "60", 60, "none"),
    ("login_rate", "5", 5, "-5"),
    (
        "oidc_issuer",
        "https://login.example.com/realms/a",
        "https://login.example.com/realms/a",
        "http://b.io",
    ),
    ("oidc_client_id", "reverser", "reverser", ""),
    ("oidc_client_secret", "long-and-random", "long-and-random", ""),
    ("oidc_scopes", "openid groups", "openid groups", ""),
    ("oidc_username_claim", "email", "email", ""),
    ("oidc_groups_claim", "roles", "roles", ""),
    ("oidc_viewer_groups", "staff, ops", frozenset({"staff", "ops"}), ""),
    ("oidc_operator_groups", "ops", frozenset({"ops"}), ""),
    ("log_format", "json", "json", "xml"),
    ("log_level", "WARNING", "warning", "loud"),
]


def test_the_table_is_whole() -> None:
    """Every setting has its row."""
    assert sorted(SETTINGS) == sorted(row[0] for row in TABLE)


@pytest.mark.parametrize(("name", "text", "value", "_refused"), TABLE, ids=[row[0] for row in TABLE])
def test_a_text_becomes_its_value(name: str, text: str, value: Any, _refused: str) -> None:
    """The variable of a setting is read into the field of that name."""
    assert value == getattr(load_config({variable_name(name): text, **_partners(name)}), name)


def _partners(name: str) -> dict[str, str]:
    """What a setting needs beside it to be accepted."""
    if name == "oidc_issuer":
        needed = ("OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET", "OIDC_VIEWER_GROUPS")
        return {f"REVERSER_{needs}": "something" for needs in needed}
    return {"REVERSER_AUDIT_INSECURE": "true"} if name == "author_attribution" else {}


@pytest.mark.parametrize(
    ("name", "refused"),
    [(row[0], row[3]) for row in TABLE if row[3]],
    ids=[row[0] for row in TABLE if row[3]],
)
def test_nonsense_is_refused_by_name(name: str, refused: str) -> None:
    """A text that cannot be used is refused, and the message names the variable."""
    with pytest.raises(SettingsInvalid) as raised:
        load_config({variable_name(name): refused})
    assert [problem for problem in raised.value.problems if problem.startswith(f"{variable_name(name)}: ")]


@pytest.mark.parametrize("name", list(SETTINGS))
def test_a_file_may_hold_the_value(name: str, tmp_path: Path) -> None:
    """NAME_FILE names a file with the value; a final newline does not count."""
    text, value = next((row[1], row[2]) for row in TABLE if row[0] == name)
    file = tmp_path / "value"
    file.write_text(text + "\n")
    assert value == getattr(load_config({f"{variable_name(name)}_FILE": str(file), **_partners(name)}), name)


def test_all_problems_are_told_at_once() -> None:
    """Wrong values, unknown variables and contradictions come together; secrets are not repeated."""
    with pytest.raises(SettingsInvalid) as raised:
        load_config(
            {
                "REVERSER_LOG_LEVEL": "loud",
                "REVERSER_SWEEP_BREAK": "50",
                "REVERSER_AUTHOR_ATTRIBUTION": "true",
                "REVERSER_SECRET_KEY_FILE": "/no/such/file",
            }
        )
    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "REVERSER_SECRET_KEY_FILE",
        "REVERSER_LOG_LEVEL",
        "REVERSER_SWEEP_BREAK",
        "REVERSER_AUTHOR_ATTRIBUTION",
    ]


def test_an_issuer_needs_a_client_and_groups() -> None:
    """A login that could let nobody in, or could not be made, is told at the start."""
    with pytest.raises(SettingsInvalid) as raised:
        load_config({"REVERSER_OIDC_ISSUER": "https://login.example.com"})
    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "REVERSER_OIDC_CLIENT_ID",
        "REVERSER_OIDC_CLIENT_SECRET",
        "REVERSER_OIDC_VIEWER_GROUPS",
    ]


def test_what_kubernetes_injects_is_no_setting() -> None:
    """Service links of a Service named reverser are ignored."""
    load_config({"REVERSER_WEB_SERVICE_HOST": "10.0.0.1", "REVERSER_WEB_PORT_80_TCP": "tcp://10.0.0.1:80"})


@pytest.mark.parametrize(
    ("environ", "on"),
    [
        ({}, False),
        ({"REVERSER_AUDIT_INSECURE": "true"}, True),
        ({"REVERSER_AUDIT_CERT_DIR": "/c"}, False),
        ({"REVERSER_AUDIT_CERT_DIR": "/c", "REVERSER_AUDIT_CLIENT_CA": "/ca"}, True),
        ({"REVERSER_AUDIT_INSECURE": "true", "REVERSER_AUTHOR_ATTRIBUTION": "false"}, False),
    ],
)
def test_attribution_follows_the_certificates(environ: dict[str, str], on: bool) -> None:
    """On where it is possible and not refused."""
    assert load_config(environ).author_attribution is on


def test_the_command_namespace_is_the_pods() -> None:
    """The setting, else the pod's namespace, else the product's name."""
    assert load_config({}).command_namespace == "gitops-reverser"
    assert load_config({"POD_NAMESPACE": "tools"}).command_namespace == "tools"
    environ = {"POD_NAMESPACE": "tools", "REVERSER_COMMAND_NAMESPACE": "mine"}
    assert load_config(environ).command_namespace == "mine"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {"secrets"}),
        ("secrets", {"secrets"}),
        ("core.acme.io/TenantSecrets, credentials", {"core.acme.io/tenantsecrets", "credentials", "secrets"}),
        (" A/B ,a/b", {"a/b", "secrets"}),
    ],
)
def test_sensitive_types(text: str, expected: set[str]) -> None:
    """E1: case-folded, trimmed, each once; core Secrets always."""
    assert parse_sensitive_resources(text) == expected


@pytest.mark.parametrize(
    ("text", "entry"), [("a/b/c", "a/b/c"), ("/x", "/x"), ("x/", "x/"), ("x,", ""), ("a,,b", "")]
)
def test_malformed_sensitive_types(text: str, entry: str) -> None:
    """E1: a start with one is refused, and the entry is named."""
    with pytest.raises(SettingsInvalid) as caught:
        load_config({variable_name("additional_sensitive_resources"): text})
    assert f'invalid additional sensitive resource "{entry}": ' in str(caught.value.problems)
