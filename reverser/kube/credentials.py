"""The address of the cluster and our identity there.

The kubernetes library's loaders read kubeconfig files, in-cluster files, token files and exec plugins; its
generated models and clients are not used. ``KubeConfig`` is the one value both clients share: it provides the
address, a TLS context and the current headers, and can be reloaded after a 401.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from reverser.errors import KubeUnavailable, SettingsInvalid
from reverser.kube.proxies import proxy_for
from reverser.trust.tls import client_context

USER_AGENT = "gitops-reverser"
_UNREADABLE = (ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError)


class KubeConfig:
    """A loaded configuration. Use ``KubeConfig.load``."""

    def __init__(self, kubeconfig: str, context: str | None = None) -> None:
        self._kubeconfig = kubeconfig
        """Paths as KUBECONFIG has them, or empty for in-cluster."""
        self._context = context
        self._lock = threading.Lock()
        self._configuration, self._extra, self.blocking = _read(kubeconfig, context)
        self._in_use = self._connection()
        """Address and certificates of the newest TLS context; the files may have changed since."""

    @classmethod
    def load(cls, kubeconfig: str | None = None, context: str | None = None) -> KubeConfig:
        """Loads ``kubeconfig``, else ``$KUBECONFIG``, else the in-cluster files, else ``~/.kube/config``;
        there ``context``, else the current one. A context asks for a kubeconfig, also within a cluster.

        Raises SettingsInvalid when what is found does not parse, or names a context, user, cluster or
        file that does not exist.
        """
        chosen = kubeconfig or os.environ.get("KUBECONFIG", "")
        if not chosen and (context or not os.environ.get("KUBERNETES_SERVICE_HOST")):
            chosen = str(Path("~/.kube/config").expanduser())
        return cls(chosen, context)

    @property
    def host(self) -> str:
        """The server's base URL without a slash at its end."""
        return str(self._configuration.host).rstrip("/")

    @property
    def proxy(self) -> str | None:
        """The proxy on the way to this server, or None: that of the kubeconfig's cluster, else the
        environment's.
        """
        return self._configuration.proxy or proxy_for(self.host)

    def headers(self) -> dict[str, str]:
        """Headers of every request: identity and user agent. May run an exec plugin when ``blocking``."""
        with self._lock:
            token = self._configuration.get_api_key_with_prefix("BearerToken", "authorization")
        headers = {"User-Agent": USER_AGENT, **self._extra}
        if token:
            headers["Authorization"] = token
        return headers

    def tls(self) -> ssl.SSLContext | None:
        """A TLS context, or None for plain HTTP. Raises SettingsInvalid for unusable certificates."""
        configuration = self._configuration
        self._in_use = self._connection()
        if not self.host.startswith("https"):
            return None
        try:
            context = client_context(ca_file=configuration.ssl_ca_cert or "")
            if configuration.cert_file:
                context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
        except OSError as error:
            raise SettingsInvalid(
                [f"the certificates of {self._source} cannot be used ({error}); check CA and client files"]
            ) from error
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    @property
    def verifies(self) -> bool:
        """Whether the server's certificate is checked."""
        return bool(self._configuration.verify_ssl)

    @property
    def server_name(self) -> str | None:
        """The name that the server's certificate must carry, when it is not the host of the URL."""
        return self._configuration.tls_server_name or None

    def reload(self) -> bool:
        """Reads everything again; true when the address or the certificates differ from those of the newest
        TLS context. Raises KubeUnavailable.
        """
        try:
            fresh = _read(self._kubeconfig, self._context)
        except SettingsInvalid as error:
            raise KubeUnavailable(
                f"the credentials were rejected, and reading them again failed: {error}"
            ) from error
        with self._lock:
            self._configuration, self._extra, self.blocking = fresh
        return self._connection() != self._in_use

    def _connection(self) -> tuple[Any, ...]:
        configuration = self._configuration
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        contents = tuple(Path(file).read_bytes() if file and Path(file).is_file() else None for file in files)
        return (self.host, configuration.verify_ssl, configuration.tls_server_name, contents)

    @property
    def _source(self) -> str:
        return self._kubeconfig or "the in-cluster service account"


def _read(kubeconfig: str, context: str | None) -> tuple[Configuration, Mapping[str, str], bool]:
    configuration = Configuration()
    try:
        if not kubeconfig:
            load_incluster_config(client_configuration=configuration)
            configuration.proxy = None
            return configuration, {}, False
        merged = KubeConfigMerger(kubeconfig).config
        if merged is None:
            raise ConfigException("no such file")
        loader = KubeConfigLoader(config_dict=merged, config_base_path=None, active_context=context)
        loader.load_and_set(configuration)
        # The library would take it from the environment, for whatever server.
        configuration.proxy = _proxy(loader._cluster.value if loader._cluster is not None else {})
        user = loader._user.value if loader._user is not None else {}
    except _UNREADABLE as error:
        place = kubeconfig or "the in-cluster service account"
        raise SettingsInvalid([_problem(place, error)]) from error
    if not str(configuration.host).startswith(("http://", "https://")):
        raise SettingsInvalid([f"{kubeconfig}: the cluster of its context has no http(s) server URL"])
    return configuration, _impersonation(user), "exec" in user or "auth-provider" in user


def _proxy(cluster: Mapping[str, str]) -> str | None:
    """``proxy-url`` of a kubeconfig's cluster, which the library ignores."""
    proxy = cluster.get("proxy-url") or None
    if proxy is not None and not proxy.startswith(("http://", "https://")):
        raise SettingsInvalid(
            ["the kubeconfig's proxy-url is no http:// or https:// address; no other proxy can be used"]
        )
    return proxy


def _impersonation(user: Mapping[str, Any]) -> Mapping[str, str]:
    """``as`` of a kubeconfig user, which the library ignores: without it we would act with more rights."""
    if user.get("as-groups") and not user.get("as"):
        raise SettingsInvalid(["the kubeconfig user has as-groups without as; add as, or remove as-groups"])
    headers = {"Impersonate-User": str(user["as"])} if user.get("as") else {}
    groups = user.get("as-groups") or []
    if len(groups) > 1 or user.get("as-user-extra"):
        raise SettingsInvalid(
            ["the kubeconfig user impersonates several groups or extras; use as and one group"]
        )
    if groups:
        headers["Impersonate-Group"] = str(groups[0])
    return headers


def _problem(place: str, error: Exception) -> str:
    if isinstance(error, yaml.YAMLError):
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        return f"{place} is not valid YAML{where}; set KUBECONFIG to a working kubeconfig"
    if isinstance(error, ConfigException | OSError):
        return f"{place} cannot be used: {error}; set KUBECONFIG to a working kubeconfig and context"
    return f"{place} is not a kubeconfig ({type(error).__name__}); set KUBECONFIG to a working one"
