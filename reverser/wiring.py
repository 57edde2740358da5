"""Where the edges are made: one store and one Kubernetes client per process, from the settings."""

from __future__ import annotations

import os
from functools import lru_cache

from reverser.config import Config
from reverser.errors import SettingsInvalid
from reverser.kube.sync import Kube
from reverser.store import Store


def config() -> Config:
    """The parsed settings of this process."""
    from django.conf import settings

    found: Config = settings.CONFIG
    return found


def redis_url() -> str:
    """The address of the store. Raises SettingsInvalid where none is set."""
    url = config().redis_url
    if not url:
        raise SettingsInvalid(
            [
                "REVERSER_REDIS_URL: it is not set; name the Redis or Valkey of the journal, for example "
                "redis://valkey:6379/0, or use `manage.py up`, which starts one"
            ]
        )
    return url


@lru_cache(maxsize=1)
def store() -> Store:
    """The store of this process; connecting happens with the first call."""
    return Store.connect(redis_url())


@lru_cache(maxsize=1)
def kube() -> Kube:
    """The Kubernetes client of this process. Raises SettingsInvalid for a kubeconfig that cannot be used."""
    return Kube.connect(os.environ.get("KUBECONFIG") or None)
