"""Everything that stands under a target path, as a persistent value.

The branch writer keeps one inventory per target path and derives the next from the files that a commit
changed, so that the cost of a commit follows the change and not the repository. Documents are found by group,
kind and name; the namespace that a kustomization supplies is worked out on lookup, so a change of a
kustomization re-indexes nothing. An inventory is never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from .facts import DocumentFact, FileFacts, IndexCache, read_facts
from .identity import NameKey, ObjectKey, is_known_cluster_scoped
from .ignore import IGNORE_FILE, NO_RULES, IgnoreRules, parse_ignore, refused_rules
from .kustomize.context import KustomizeContext, build_context, resolve_entry
from .kustomize.model import Kustomization, parse_kustomization
from .kustomize.outside import Outside, read_outside
from .limits import CONTEXT_LIMITS, DEFAULT_LIMITS, Limits
from .placement.habits import Habit, Habits, TypeKey
from .records import DocumentRef, FileRecord, namespace_of
from .roles import Role, role_of
from .tree import MODE_FILE, MODE_SUBMODULE, MODE_SYMLINK, RepositoryTree, Tree, TreeEntry, blob_id

Reader = Callable[[str], bytes]

_READ_ROLES = frozenset({Role.MANIFEST, Role.KUSTOMIZATION})


class Inventory:
    """The indexed content of one target path. Build it with `scan`, derive the next with `updated` or
    `with_files`.
    """

    def __init__(self, *, cache: IndexCache | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.rules: IgnoreRules = NO_RULES
        self.files: dict[str, FileRecord] = {}
        self.context = KustomizeContext()
        self.total_bytes = 0
        self.total_files = 0
        self.retained: dict[str, FileRecord] = {}
        self.suspects: dict[str, FileRecord] = {}
        self.outside = Outside()
        self._repository: RepositoryTree | None = None
        self._cache = cache if cache is not None else IndexCache()
        self._kustomizations: dict[str, Kustomization] = {}
        self._values_sources: dict[str, tuple[str, ...]] = {}
        self._by_name: dict[NameKey, tuple[DocumentRef, ...]] = {}
        self._by_type: dict[tuple[str, str], frozenset[NameKey]] = {}
        self._repeated: frozenset[NameKey] = frozenset()
        self._derived: dict[object, object] = {}
        self._habits = Habits()

    @classmethod
    def scan(
        cls, tree: Tree, *, cache: IndexCache | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> Inventory:
        """Index a whole tree; bytes already known to the cache are not read again."""
        empty = cls(cache=cache, limits=limits)
        if isinstance(tree, RepositoryTree):
            empty._repository = tree
        return empty.updated(tree.entries(), tree.read)

    def updated(
        self, entries: Iterable[TreeEntry], read: Reader, *, removed: Iterable[str] = ()
    ) -> Inventory:
        """The inventory after these entries were added or replaced and these paths removed."""
        fresh = list(entries)
        gone = list(removed)
        touches_rules = IGNORE_FILE in gone or any(entry.path == IGNORE_FILE for entry in fresh)
        following = self._copy()
        if touches_rules:
            following._read_rules(fresh, read)
            kept = {path: record.entry for path, record in self.files.items() if path not in set(gone)}
            kept.update({entry.path: entry for entry in fresh})
            following._reset()
            following._apply(list(kept.values()), [], read, known=self)
        else:
            following._apply(fresh, gone, read)
        return following

    def with_files(self, files: Mapping[str, bytes | None], *, like: str = "") -> Inventory:
        """The inventory after a write plan's files (bytes, or None for a removal) were committed."""
        contents: dict[str, bytes] = {}
        entries: list[TreeEntry] = []
        for path, data in files.items():
            if data is not None:
                blob = blob_id(data, like=like)
                contents[blob] = data
                entries.append(TreeEntry(path, MODE_FILE, blob, len(data)))
        removed = [path for path, data in files.items() if data is None]
        return self.updated(entries, contents.__getitem__, removed=removed)

    def seen_from(self, tree: Tree) -> Inventory:
        """This inventory with the bases outside the path read from another commit's tree."""
        if not isinstance(tree, RepositoryTree) or tree is self._repository:
            return self
        following = self._copy()
        following._repository = tree
        following._derived = self._derived
        if not self._kustomizations:
            return following
        limit = self.limits.file_bytes
        inside = [self.context.by_directory[item.directory] for item in self._kustomizations.values()]
        if read_outside(inside, tree, max_bytes=limit).files == self.outside.files:
            return following
        following._derived = {}
        following._apply([], [], tree.read)
        return following

    def lookup(self, group: str, kind: str, name: str) -> tuple[DocumentRef, ...]:
        """Every document of this group, kind and name, in path order, whatever its version or namespace."""
        return self._by_name.get(NameKey(group, kind, name), ())

    def types(self) -> list[tuple[str, str]]:
        """Group and kind of everything that is indexed, sorted."""
        return sorted(self._by_type)

    def of_type(self, group: str, kind: str) -> list[DocumentRef]:
        """Every document of a type, in path order."""
        names = self._by_type.get((group, kind), frozenset())
        refs = [ref for key in names for ref in self._by_name[key]]
        return sorted(refs, key=lambda ref: (ref.path, ref.fact.index))

    def repeated_names(self) -> frozenset[NameKey]:
        """The names that more than one document carries."""
        return self._repeated

    def documents(self) -> Iterable[DocumentRef]:
        """Every managed document, in path order."""
        for path in sorted(self.files):
            record = self.files[path]
            if record.role is Role.MANIFEST and record.facts is not None and path not in self.context.patches:
                for fact in record.facts.documents:
                    if fact.is_krm:
                        yield DocumentRef(path, fact)

    def effective_namespace(self, ref: DocumentRef) -> str:
        """The namespace a document ends up in: the outermost kustomization's, else its own, else empty."""
        return namespace_of(self.context, ref.path, ref.fact)

    def habit(self, key: TypeKey, namespace: str | None) -> Habit:
        """The habit of a type in a namespace, or everywhere with None. Read it before the next question."""
        return self._habits.of(self.files, self.context, key, namespace)

    def is_ambiguous(self, ref: DocumentRef) -> bool:
        """True when several kustomizations put a document into different namespaces."""
        if is_known_cluster_scoped(ref.fact.group, ref.fact.kind):
            return False
        return len(self.context.namespaces(ref.path)) > 1

    def values_files(self) -> frozenset[str]:
        """The values files that Helm objects of the path name, as written."""
        return frozenset(name for names in self._values_sources.values() for name in names)

    def derived(self, key: object, make: Callable[[], object]) -> object:
        """A value computed once from this inventory; an inventory derived from it computes its own."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def _copy(self) -> Inventory:
        other = Inventory(cache=self._cache, limits=self.limits)
        other.rules = self.rules
        other.files = dict(self.files)
        other.context = self.context
        other.total_bytes = self.total_bytes
        other.total_files = self.total_files
        other.retained = dict(self.retained)
        other.suspects = dict(self.suspects)
        other.outside = self.outside
        other._repository = self._repository
        other._kustomizations = dict(self._kustomizations)
        other._values_sources = dict(self._values_sources)
        other._by_name = dict(self._by_name)
        other._by_type = dict(self._by_type)
        other._repeated = self._repeated
        other._habits = self._habits
        return other

    def _reset(self) -> None:
        blank = Inventory(cache=self._cache, limits=self.limits)
        blank.rules = self.rules
        blank._repository = self._repository
        blank._habits = self._habits
        for name, value in vars(blank).items():
            setattr(self, name, value)

    def _read_rules(self, fresh: Sequence[TreeEntry], read: Reader) -> None:
        found = next((entry for entry in fresh if entry.path == IGNORE_FILE), None)
        self.rules = NO_RULES
        if found is None or found.mode in (MODE_SYMLINK, MODE_SUBMODULE):
            return
        self.rules = (
            parse_ignore(read(found.blob))
            if found.size <= CONTEXT_LIMITS.file_bytes
            else refused_rules(found.size, CONTEXT_LIMITS.file_bytes)
        )

    def _apply(
        self,
        fresh: Sequence[TreeEntry],
        gone: Sequence[str],
        read: Reader,
        *,
        known: Inventory | None = None,
    ) -> None:
        before: list[DocumentRef] = []
        after: list[DocumentRef] = []
        graph_changed = False
        for path in [*gone, *(entry.path for entry in fresh)]:
            record = self.files.pop(path, None)
            if record is not None:
                graph_changed |= self._forget(path, record)
                before.extend(self._refs(path, record))
        for entry in fresh:
            old = known.files.get(entry.path) if known is not None else None
            same = old is not None and old.entry == entry and known is not None
            record = self._read(entry, read, old.facts if same and old is not None else None)
            self.files[entry.path] = record
            parsed = known._kustomizations.get(entry.path) if same and known is not None else None
            graph_changed |= self._remember(entry.path, record, read, parsed)
        old_patches = self.context.patches
        old_outside = self.outside
        if graph_changed or self._kustomizations:
            self._rebuild_context()
        moved = old_patches ^ self.context.patches
        touched = {entry.path for entry in fresh}
        for path in moved - touched:
            record = self.files.get(path)
            if record is not None:
                (before if path in self.context.patches else after).extend(self._refs(path, record))
        for entry in fresh:
            if entry.path not in self.context.patches:
                after.extend(self._refs(entry.path, self.files[entry.path]))
        if self.outside is not old_outside:
            before.extend(outside_documents(old_outside, self.limits))
            after.extend(outside_documents(self.outside, self.limits))
        self._reindex(before, after)

    def _refs(self, path: str, record: FileRecord) -> list[DocumentRef]:
        if record.role is not Role.MANIFEST or record.facts is None:
            return []
        return [DocumentRef(path, fact) for fact in record.facts.documents if fact.is_krm]

    def _read(self, entry: TreeEntry, read: Reader, known: FileFacts | None) -> FileRecord:
        role = role_of(entry, self.rules)
        if role not in _READ_ROLES:
            return FileRecord(entry, role)
        if entry.size > self.limits.file_bytes:
            return FileRecord(entry, role, oversize=True)
        facts = known or self._cache.get(entry.blob)
        if facts is None:
            facts = read_facts(read(entry.blob), limits=self.limits)
            self._cache.put(entry.blob, facts)
        return FileRecord(entry, role, facts)

    def _forget(self, path: str, record: FileRecord) -> bool:
        if record.role in _READ_ROLES:
            self.total_bytes -= record.entry.size
            self.total_files -= 1
        self.retained.pop(path, None)
        self.suspects.pop(path, None)
        self._values_sources.pop(path, None)
        if record.role is Role.KUSTOMIZATION:
            self._kustomizations.pop(path, None)
            return True
        return False

    def _remember(self, path: str, record: FileRecord, read: Reader, parsed: Kustomization | None) -> bool:
        if record.role in _READ_ROLES:
            self.total_bytes += record.entry.size
            self.total_files += 1
        if record.role is Role.RETAINED:
            self.retained[path] = record
        if _is_suspect(record):
            self.suspects[path] = record
        if record.facts is not None and record.facts.values_files:
            self._values_sources[path] = record.facts.values_files
        if record.role is not Role.KUSTOMIZATION:
            return False
        self.suspects[path] = record
        if not record.oversize:
            self._kustomizations[path] = parsed or parse_kustomization(path, read(record.entry.blob))
        return True

    def _rebuild_context(self) -> None:
        by_directory: dict[str, Kustomization] = {}
        for _path, kustomization in sorted(self._kustomizations.items()):
            by_directory.setdefault(kustomization.directory, kustomization)
        if self._repository is not None:
            limit = self.limits.file_bytes
            self.outside = read_outside(by_directory.values(), self._repository, max_bytes=limit)
            for kustomization in self.outside.kustomizations.values():
                by_directory.setdefault(kustomization.directory, kustomization)
        self.context = build_context(by_directory, is_file=self._is_file, is_patch=self._is_patch)

    def _is_file(self, path: str) -> bool:
        if path in self.outside.files:
            return path not in self.outside.kustomizations
        record = self.files.get(path)
        return record is not None and record.role not in (Role.SYMLINK, Role.SUBMODULE)

    def _is_patch(self, path: str) -> bool:
        if path in self.outside.files:
            return any(
                doc.is_krm for doc in read_facts(self.outside.files[path], limits=self.limits).documents
            )
        record = self.files.get(path)
        return (
            record is not None
            and record.facts is not None
            and any(doc.is_krm for doc in record.facts.documents)
        )

    def excess(self, path: str) -> int:
        """By how many bytes a file is too long; 0 where it is not."""
        record = self.files.get(path)
        return max(record.entry.size - self.limits.file_bytes, 0) if record is not None else 0

    def kustomization_files(self) -> list[Kustomization]:
        """Every kustomization of the path and of its bases, also a second one in a folder, in path order."""
        found = {**self._kustomizations, **self.outside.kustomizations}
        return [kustomization for _path, kustomization in sorted(found.items())]

    def _reindex(self, before: list[DocumentRef], after: list[DocumentRef]) -> None:
        lost: dict[NameKey, set[tuple[str, int]]] = {}
        won: dict[NameKey, list[DocumentRef]] = {}
        for ref in before:
            lost.setdefault(_name_key(ref.fact), set()).add((ref.path, ref.fact.index))
        for ref in after:
            won.setdefault(_name_key(ref.fact), []).append(ref)
        types: dict[tuple[str, str], set[NameKey]] = {}
        repeated = set(self._repeated)
        for key in {**lost, **won}:
            drop = lost.get(key, set())
            refs = [ref for ref in self._by_name.get(key, ()) if (ref.path, ref.fact.index) not in drop]
            refs.extend(won.get(key, ()))
            names = types.setdefault(
                (key.group, key.kind), set(self._by_type.get((key.group, key.kind), frozenset()))
            )
            if refs:
                self._by_name[key] = tuple(sorted(refs, key=lambda ref: (ref.path, ref.fact.index)))
                names.add(key)
            else:
                self._by_name.pop(key, None)
                names.discard(key)
            (repeated.add if len(refs) > 1 else repeated.discard)(key)
        for kind_key, names in types.items():
            self._by_type[kind_key] = frozenset(names)
        self._repeated = frozenset(repeated)


def _name_key(fact: DocumentFact) -> NameKey:
    return NameKey(fact.group, fact.kind, fact.name)


def locate(
    inventory: Inventory, key: ObjectKey, *, namespaced: bool
) -> tuple[DocumentRef | None, DocumentRef | None]:
    """(an object's document, else a document of its name whose namespace nobody tells)."""
    undeclared: DocumentRef | None = None
    for ref in inventory.lookup(key.group, key.kind, key.name):
        if not namespaced:
            return ref, None
        if inventory.is_ambiguous(ref):
            if any(found == key.namespace for found, _source in inventory.context.namespaces(ref.path)):
                return ref, None
            continue
        namespace = inventory.effective_namespace(ref)
        if namespace == key.namespace:
            return ref, None
        if not namespace and undeclared is None:
            undeclared = ref
    return None, undeclared


def outside_documents(outside: Outside, limits: Limits) -> list[DocumentRef]:
    """The documents of bases outside the path; patches among them are no documents of their own."""
    patches = {
        resolve_entry(kustomization.directory, patch)
        for kustomization in outside.kustomizations.values()
        for patch in kustomization.patches
    }
    return [
        DocumentRef(path, fact)
        for path, data in outside.files.items()
        if path not in outside.kustomizations and path not in patches
        for fact in read_facts(data, limits=limits).documents
        if fact.is_krm
    ]


def _is_suspect(record: FileRecord) -> bool:
    """True for a file that the gate has to check; an ordinary manifest is not one."""
    if record.role in (Role.SYMLINK, Role.SUBMODULE, Role.FOREIGN) or record.oversize:
        return True
    facts = record.facts
    if facts is None:
        return False
    return (
        facts.too_many
        or any(not fact.is_krm or fact.has_sops or fact.constructs for fact in facts.documents)
        or record.entry.path.endswith((".sops.yaml", ".sops.yml"))
    )
