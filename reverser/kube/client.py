"""The one door to the Kubernetes API: an asynchronous and a synchronous client with one vocabulary."""

from __future__ import annotations

from reverser.kube.aio import AsyncKube, WatchStream
from reverser.kube.credentials import KubeConfig
from reverser.kube.lines import WatchEvent
from reverser.kube.requests import KubeList, Patch
from reverser.kube.sync import Kube

__all__ = ["AsyncKube", "Kube", "KubeConfig", "KubeList", "Patch", "WatchEvent", "WatchStream"]
