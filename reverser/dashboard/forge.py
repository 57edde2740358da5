"""Links from a repository's address to the pages of its forge, where the address reveals which one it is."""

from __future__ import annotations

import re
from urllib.parse import quote

from reverser.errors import ConfigInvalid
from reverser.trust.urls import RepositoryUrl, Scheme, parse_repository_url

_COMMIT = (
    (re.compile(r"(^|\.)github\."), "{base}/commit/{sha}"),
    (re.compile(r"(^|\.)gitlab\."), "{base}/-/commit/{sha}"),
    (re.compile(r"(^|\.)bitbucket\.org$"), "{base}/commits/{sha}"),
    (re.compile(r"(^|\.)(codeberg\.org|gitea\..+|forgejo\..+)$"), "{base}/commit/{sha}"),
    (re.compile(r"^dev\.azure\.com$"), "{base}/commit/{sha}"),
)


def commit_url(url: str, sha: str) -> str:
    """The page of a commit, always https; empty where the forge is not known."""
    try:
        repository = parse_repository_url(url)
    except ConfigInvalid:
        return ""
    if not sha or repository.scheme is Scheme.FILE:
        return ""
    for host, form in _COMMIT:
        if host.search(repository.host.lower()):
            return form.format(base=_base(repository), sha=quote(sha, safe=""))
    return ""


def _base(repository: RepositoryUrl) -> str:
    path = repository.path.strip("/").removesuffix(".git")
    port = f":{repository.port}" if repository.web and repository.port not in (None, 80, 443) else ""
    return f"https://{repository.host}{port}/{quote(path, safe='/~')}"


def shown_url(url: str) -> str:
    """A repository's address without anything secret in it."""
    try:
        return parse_repository_url(url).text
    except ConfigInvalid:
        return ""
