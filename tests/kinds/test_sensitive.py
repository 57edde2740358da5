"""Which types are sealed, however the operator spelled them; what is told of a spelling that fits nothing."""

from __future__ import annotations

import pytest

from reverser.config import parse_sensitive_resources
from reverser.kinds.sensitive import is_sensitive, unmatched

NAMES = ("tenantsecrets", "TenantSecret", "tenantsecret", "ts")
SERVED = {
    ("core.acme.io", "tenantsecrets"): NAMES,
    ("", "configmaps"): ("ConfigMap", "configmap", "cm"),
    ("", "secrets"): ("Secret", "secret"),
    ("apps", "deployments"): ("Deployment", "deployment", "deploy"),
}


@pytest.mark.parametrize(
    "entry",
    [
        "core.acme.io/tenantsecrets",
        "core.acme.io/TenantSecret",
        "CORE.acme.io/tenantsecret",
        "core.acme.io/ts",
        "tenantsecrets.core.acme.io",
        "TenantSecret.core.acme.io",
    ],
)
def test_every_name_of_a_type_seals_it(entry: str) -> None:
    """E1: plural, kind, singular and short name, with the group before or behind, in any case."""
    wanted = parse_sensitive_resources(entry)
    assert is_sensitive("core.acme.io", NAMES, wanted)
    assert unmatched(wanted, SERVED) == ()


def test_a_type_of_another_group_is_not_meant() -> None:
    """E1: without a group the core group is meant; Secrets of another group are no core Secrets."""
    wanted = parse_sensitive_resources("credentials,ConfigMap")
    assert is_sensitive("", ("configmaps", "ConfigMap"), wanted)
    assert is_sensitive("", ("credentials", "Credential"), wanted)
    assert not is_sensitive("lab.test", ("configmaps", "ConfigMap"), wanted)
    assert not is_sensitive("lab.test", ("secrets", "Secret"), wanted)


@pytest.mark.parametrize("names", [("secrets", "Secret"), ("secrets",), ("Secret", "secret", "secrets")])
def test_secrets_always_are(names: tuple[str, ...]) -> None:
    """E1: whatever the setting says."""
    assert is_sensitive("", names, frozenset())


@pytest.mark.parametrize(
    ("entry", "meant"),
    [
        ("tenantsecrets", "core.acme.io/tenantsecrets"),
        ("acme.io/TenantSecret", "core.acme.io/tenantsecrets"),
        ("core.acme.io/tenantsecretes", "core.acme.io/tenantsecrets"),
        ("core/configmaps", "configmaps"),
        ("vaults.example.com/credentials", ""),
    ],
)
def test_a_name_that_fits_nothing_is_told(entry: str, meant: str) -> None:
    """E1: with the type that may be meant, where there is one like it."""
    (found,) = unmatched(parse_sensitive_resources(entry), SERVED)
    assert (found.entry, found.meant) == (entry.lower(), meant)
    assert f"'{entry.lower()}' is no type that the cluster serves" in str(found)


def test_secrets_are_never_told() -> None:
    """They are named by no one, and a scan that lacks them is a fault of its own."""
    assert unmatched(parse_sensitive_resources(""), {}) == ()
