"""The planted defects of groups: of who is in them, of who waits for whom, and of what stock clients send."""

from __future__ import annotations

from simulation.mutants.mutant import Mutant

_COORDINATOR = "coordinator/coordinator.py"
_GROUP = "coordinator/protocol/commit_group.py"
_REFUSALS = "coordinator/protocol/refused_swaps.py"
_LEFTOVERS = "coordinator/protocol/replaced_lists.py"
_PAUSES = "coordinator/scheduling/foreign_writer_backoff.py"
_SHARE = "coordinator/scheduling/time_budget.py"
_STAGING = "coordinator/protocol/staging.py"
_TURNS = "coordinator/scheduling/retry_priority.py"
_APPEND = "changes/append.py"
_NUMBERS = "changes/sequence_numbers.py"
_PLAIN = "changes/blind_append.py"
_REBASE_WORDS = "catalog/rebase_policies.py"
_REBASE = "changes/rebase.py"
_SHIPPED = "changes/manifest_delta.py"

GROUPS: tuple[Mutant, ...] = (
    Mutant(
        "leave-what-was-never-sent",
        "the files of an attempt that no swap carried are deleted",
        "coordinator/protocol/commit_group.py",
        "            self._garbage.extend(attempt.written)\n            self._unsent = None\n",
        "            self._unsent = None\n",
        scenario="contested",
    ),
    Mutant(
        "trust-an-id-that-came-again",
        "a snapshot that is committed anew under its id is not the one that was seen before",
        _NUMBERS,
        " or number > parent.sequence_number:\n",
        " or number:\n",
        scenario="overwritten",
    ),
    Mutant(
        "forget-the-savepoint",
        "a change that breaks half-way leaves nothing of its first half behind",
        _STAGING,
        "            self.broken.append((member, error))\n",
        "            self.broken.append((member, error))\n"
        "            sent = getattr(member.change, 'updates', ())\n"
        "            self.metadata = apply(self.metadata, sent[:1], now_ms=self._now_ms())\n",
        scenario="groups",
    ),
    Mutant(
        "keep-a-broken-member-s-list",
        "a change that breaks leaves no list behind",
        _STAGING,
        "        noted.discard(noted.lists)\n",
        "        pass\n",
        scenario="branches",
    ),
    Mutant(
        "drop-who-finds-no-room",
        "who finds no room in a group is in the next one",
        _COORDINATOR,
        "queue.members[self._settings.group_max_changes :]",
        "[]",
        scenario="groups",
    ),
    Mutant(
        "take-whom-the-queue-refuses",
        "whom the queue has no room for is not in it",
        _COORDINATOR,
        "                if full := self._full(queue, size):\n",
        "                if full := self._full(queue, size):\n"
        "                    queue.members.append((member, size))\n",
        scenario="turns-given-up",
    ),
    Mutant(
        "last-come-first-served",
        "changes are taken in the order in which they came",
        _COORDINATOR,
        "queue.members.append((member, size))",
        "queue.members.insert(0, (member, size))",
        scenario="groups",
    ),
    Mutant(
        "serve-the-losers-last",
        "who lost its place goes first when it comes back",
        _COORDINATOR,
        "-turns.losses(",
        "turns.losses(",
        scenario="turns",
    ),
    Mutant(
        "give-no-turn",
        "who lost its place gets a turn",
        _TURNS,
        "if not ids or not self._max_wait:",
        "if True:",
        scenario="turns",
    ),
    Mutant(
        "tell-all-who-lost-at-once",
        "of several who lost their place one hears of it at a time",
        _TURNS,
        "elif id_ not in self._kept and ",
        "elif False and ",
        scenario="turns-appenders",
    ),
    Mutant(
        "a-turn-never-ends",
        "a turn ends, whether or not somebody comes",
        _TURNS,
        " and now >= self._losers[self._away].since + self._max_wait:",
        " and False:",
        scenario="turns-given-up",
    ),
    Mutant(
        "a-turn-for-nobody",
        "who did not lose its place has no turn",
        _TURNS,
        "if not lost_its_place(member):",
        "if False:",
        scenario="turns",
    ),
    Mutant(
        "turns-without-a-share",
        "turns take their share of all time, and no more",
        _SHARE,
        "        self._not_before = ended + (ended - begun) * (1 / self._share - 1)\n",
        "        pass\n",
        scenario="turns-given-up",
    ),
    Mutant(
        "rest-for-nobody",
        "a table rests when a foreign writer waits for its lock",
        _PAUSES,
        "if not (lost or self._world.foreign_writer_waits(self._name)):",
        "if False:",
        scenario="groups",
    ),
    Mutant(
        "no-rest-for-who-lost",
        "a table rests after a foreign writer had its lock in vain",
        _PAUSES,
        "lost = behind_foreign_writer and not moved\n",
        "lost = False\n",
        scenario="rests",
    ),
    Mutant(
        "a-rest-never-ends",
        "a rest ends, whether or not the table moves",
        _PAUSES,
        "runtime.now() - begun < self._longest and ",
        "",
        scenario="rests",
    ),
    Mutant(
        "delete-a-leftover-at-once",
        "a list that its client left stays for its time",
        _LEFTOVERS,
        "self._world.runtime.now() + self._age\n",
        "self._world.runtime.now()\n",
        scenario="leftovers",
    ),
    Mutant(
        "forget-the-leftovers",
        "a list that its client left goes when its time is over",
        _LEFTOVERS,
        "        if old:\n",
        "        if False:\n",
        scenario="leftovers",
    ),
    Mutant(
        "forget-what-was-refused",
        "what a refused attempt left goes when its change has landed and its time is over",
        _LEFTOVERS,
        "                    lists.update(dict.fromkeys(change.lists))\n",
        "                    pass\n",
        scenario="litter",
    ),
    Mutant(
        "delete-a-named-manifest",
        "a manifest of a refused attempt stays if the one that landed names it too",
        _LEFTOVERS,
        "                merged = self._unnamed(merged, attempt.changed)\n",
        "                pass\n",
        scenario="litter",
    ),
    Mutant(
        "delete-what-a-client-was-handed",
        "a manifest of a refused attempt stays if it may be somebody else's",
        _LEFTOVERS,
        "                and each.existing_files_count\n",
        "",
        scenario="litter",
    ),
    Mutant(
        "delete-a-client-s-list-with-the-garbage",
        "a list that was replaced is its client's, as long as that may send it again",
        _GROUP,
        "self.leftovers += self._replaced\n",
        "self._garbage.extend(self._replaced)\n",
        scenario="groups",
    ),
    Mutant(
        "renumber-nothing",
        "a snapshot whose number is stale gets the next one",
        _NUMBERS,
        "        return late or ",
        "        return False and late or ",
        scenario="branches-network",
    ),
    Mutant(
        "say-the-stale-number-in-the-list",
        "a renumbered snapshot's list says its new number",
        _SHIPPED,
        "        sequence_number=UNASSIGNED,\n",
        "",
        scenario="branches",
    ),
    Mutant(
        "keep-the-first-row-id",
        "a renumbered or rebased snapshot gets the table's next row ids",
        _NUMBERS,
        '        raw["first-row-id"] = base.next_row_id\n',
        "        pass\n",
        scenario="branches",
    ),
    Mutant(
        "rebase-a-replace-over-a-delete",
        "a rewrite is put on a parent only if nothing was deleted in between",
        _REBASE,
        '        return "files were deleted since the snapshot that it was made on"\n',
        "        return None\n",
        scenario="rewrites",
    ),
    Mutant(
        "rebase-a-delete",
        "a delete stands on what its client saw",
        _REBASE,
        "if snapshot.operation not in (summary.APPEND, summary.REPLACE):",
        "if False:",
        scenario="rewrites",
    ),
    Mutant(
        "rebase-on-replaced-manifests",
        "what a rebased snapshot stands for is still in the head",
        _SHIPPED,
        "        if not self.dropped <= {manifest.manifest_path for manifest in head}:\n",
        "        if False:\n",
        scenario="rebase-all",
    ),
    Mutant(
        "keep-what-was-merged",
        "manifests that a client merged are left out of the new list",
        _SHIPPED,
        "for manifest in head if manifest.manifest_path not in gone",
        "for manifest in head",
        scenario="rebase-all",
    ),
    Mutant(
        "take-all-for-plain",
        "an append whose summary says something unknown is not rebased",
        _PLAIN,
        "    if unknown:\n",
        "    if False:\n",
        scenario="branches",
    ),
    Mutant(
        "look-for-duplicates-once",
        "whether the branch has a file is looked up on every base, under the lock too",
        _APPEND,
        "        self._refuse_live(kept, manifests)\n",
        "        if not self._written:\n            self._refuse_live(kept, manifests)\n",
        scenario="same-files",
    ),
    Mutant(
        "believe-a-mate",
        "a file is refused for what another of the group adds only if that has landed",
        _GROUP,
        "for member, outcome in standing(self._outcomes, self._members):\n",
        "for member, outcome in self._outcomes:\n",
        scenario="same-files",
    ),
    Mutant(
        "overhear-the-table-s-word",
        "where the table says so nothing is rebased",
        _REBASE,
        "    if word.word == blind_append.NONE:\n",
        "    if False:\n",
        scenario="rebase-none",
    ),
    Mutant(
        "take-silence-for-consent",
        "a namespace that cannot be read may have forbidden to rebase",
        _REBASE_WORDS,
        "        except IcebergHmsError as error:\n",
        "        except IcebergHmsError as error:\n            return self._server\n",
        scenario="rebase-namespace",
    ),
    Mutant(
        "trust-a-listener",
        "what a listener raises loses no group that was taken from the queue",
        _COORDINATOR,
        '            with log_and_continue(f"telling listeners of {name}", REPORT):\n                seconds',
        "            if True:\n                seconds",
        scenario="defects",
    ),
    Mutant(
        "refuse-what-landed",
        "of a group that was refused in parts, what landed is not refused as well",
        _REFUSALS,
        "        self._landed = True\n",
        "        self._landed = True\n"
        "        self._alone += [(member, AccessDenied('refused')) for member in self._again]\n",
        scenario="refusals",
    ),
)
