"""The files that a target path gets with its first real commit: a note for people, an empty ignore file,
SOPS rules.

They are created where missing and never touched where they exist, so edits to them are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from .ignore import IGNORE_FILE
from .inventory import Inventory
from .tree import TreeEntry, blob_id

README = "README.md"
SOPS_RULES = ".sops.yaml"

_IGNORE_TEXT = """\
# Files below this folder that GitOps Reverser should not look at, in gitignore syntax.
#
# The folder belongs to the mirror: every other file is either a Kubernetes manifest that it keeps up to date,
# or a reason to stop and ask. List here what may stand beside the manifests.
#
# Patterns that would hide the mirror's own files (*, **, /, *.yaml, *.yml, **/*) are refused.
# A comment needs a line of its own. Examples, each without the leading "# " to make it work:
#
# scripts/
# *.sh
# docs/notes.txt
"""


def readme_text(recipients: Sequence[str]) -> str:
    """The text of the path's README; recipients are public age keys."""
    lines = [
        "# Managed by GitOps Reverser",
        "",
        "This folder was set up by GitOps Reverser. It holds the state of a Kubernetes cluster as manifests",
        "and is kept up to date from there; comments and formatting that people add are kept.",
        "",
        f"`{IGNORE_FILE}` lists files that may stand here without being managed.",
        "",
        f"`{SOPS_RULES}` is needed to encrypt Secrets with SOPS.",
    ]
    if recipients:
        lines += ["Secrets are encrypted for these age recipients:", ""]
        lines += [f"- `{recipient}`" for recipient in sorted(recipients)]
    else:
        lines += ["No recipients are configured, so no Secrets are written here."]
    lines += ["", "Changing or removing these files can stop the mirroring of Secrets.", ""]
    return "\n".join(lines)


def sops_rules_text(recipients: Sequence[str]) -> str:
    """The text of `.sops.yaml`; raises ValueError when there is no recipient or a blank one."""
    if not recipients or any(not recipient.strip() for recipient in recipients):
        raise ValueError(
            "SOPS rules need at least one age recipient and none may be blank; set encryption.age"
        )
    lines = [
        "creation_rules:",
        "- encrypted_regex: '^(data|stringData)$'",
        "  key_groups:",
        "  - age:",
        *(f"    - {recipient}" for recipient in sorted({recipient.strip() for recipient in recipients})),
        "  path_regex: '.*\\.sops\\.ya?ml$'",
        "",
    ]
    return "\n".join(lines)


def is_untouched_ignore_file(entry: TreeEntry) -> bool:
    """Whether an entry is the ignore file as it was created, without a pattern of anybody's.

    In a folder below the path it is what a GitTarget of that folder left behind; it says nothing there.
    """
    name = entry.path.rpartition("/")[2]
    return name == IGNORE_FILE and entry.blob == blob_id(_IGNORE_TEXT.encode(), like=entry.blob)


def missing_files(
    inventory: Inventory, recipients: Sequence[str], *, encryption_enabled: bool
) -> dict[str, bytes]:
    """The bootstrap files that a path lacks, by path relative to it."""
    wanted = {README: readme_text(recipients), IGNORE_FILE: _IGNORE_TEXT}
    if encryption_enabled and recipients:
        wanted[SOPS_RULES] = sops_rules_text(recipients)
    return {path: text.encode() for path, text in wanted.items() if path not in inventory.files}
