"""The whole environment of a git child.

Git obeys a dozen files and variables of whoever runs it: user and system configuration, hooks, credential
helpers, prompts, attributes, replacement refs. Here it gets none of them: the environment is built from
nothing, and every setting that matters is given with it.
"""

from __future__ import annotations

import os
import shutil

_CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.quotePath": "false",
    "core.fsyncMethod": "batch",
    "credential.helper": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "fetch.recurseSubmodules": "false",
    "submodule.recurse": "false",
    "push.recurseSubmodules": "no",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "commit.gpgSign": "false",
    "fastimport.unpackLimit": "100",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "45",
    "pack.compression": "1",
    "protocol.version": "2",
}


def base_environment() -> dict[str, str]:
    """The variables of every git child, before any remote is known."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "SSH_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": "file:http:https:ssh",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(len(_CONFIG) + 1),
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    for number, (key, value) in enumerate(_CONFIG.items(), start=1):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment


def git_binary() -> str:
    """The git that is used: the first on PATH."""
    return shutil.which("git") or "git"
