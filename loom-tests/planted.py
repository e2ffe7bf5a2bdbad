"""The flaws that `weaken.py` plants, and the models that find them."""

from dataclasses import dataclass


@dataclass
class Flaw:
    name: str
    function: str
    # For an ordering: what stands before it in the function, and what it is and becomes.
    # Otherwise: code of the function, there once, and what takes its place.
    edits: list
    models: list
    tier: int = 1
    is_ordering: bool = False


def weaker(name, function, near, was, becomes, *models, tier=1):
    name = f"{name}: {was} -> {becomes}"
    return Flaw(name, function, [(near, (was, becomes))], list(models), tier, True)


def flaw(name, function, edits, *models, tier=1):
    return Flaw(name, function, edits, list(models), tier)


ORDERINGS = [
    weaker("slot store", "install", "slot.store", "Release", "Relaxed",
           "check_invalidate", "check_preempt", "check_handed_over", "check_refill_front"),
    weaker("slot load", "lease", "slot.load", "Acquire", "Relaxed",
           "check_release", "check_replace", "check_slot_reuse", "history_passed_on",
           "loss_in_one_group"),
    weaker("epoch store", "publish", "epoch.store", "Release", "Relaxed",
           "regrow_retire", "snapshot_slot_reuse"),
    weaker("epoch load", "epoch", "epoch.load", "Acquire", "Relaxed",
           "view_ended", "view_publish", "growth_of_all_groups", "view_window"),
    weaker("root store", "grow", "root.store", "Release", "Relaxed", "grow_pin", "grow_view"),
    weaker("root load", "root", "root.load", "Acquire", "Relaxed",
           "append_never_refuses", "check_append"),
    weaker("extent store", "grow", "extent.store", "Release", "Relaxed",
           "plan_then_pin", "pin_truncate_regrow"),
    weaker("extent load", "extent", "extent.load", "Acquire", "Relaxed", "grow_hole", "grow_plan"),
    weaker("committed store", "raise", "raised.store", "Release", "Relaxed",
           "pin_commit", "visible_tokens_commit"),
    weaker("committed load", "committed", "raised.load", "Acquire", "Relaxed",
           "pin_commit", "commit_of_all_groups"),
    weaker("word load, closed", "take", "let _ = lease", "Acquire", "Relaxed",
           "exact_hold_and_pin", "inherit", "loss_in_another_group"),
    weaker("word close", "close", "word.fetch_add", "AcqRel", "Acquire",
           "loss_outside_range", "pin_invalidate"),
    weaker("word close", "close", "word.fetch_add", "AcqRel", "Release",
           "reclaimable_then_release", "begin_drain", "pin_vacate_front"),
    weaker("word unpin", "give_back", "word.fetch_sub", "AcqRel", "Acquire",
           "narrow_beside_scheduler_drop", "scheduler_drop_one_lease", "pin_vacate_inside",
           "unpin_invalidate"),
    weaker("word unpin", "give_back", "word.fetch_sub", "AcqRel", "Release",
           "narrow_and_unpin", "narrow_drain"),
    weaker("word unpin by adoption", "adopt", "word.fetch_sub", "AcqRel", "Acquire",
           "narrow_live", "narrow_scheduler_drop"),
    weaker("word unpin by adoption", "adopt", "word.fetch_sub", "AcqRel", "Release",
           "narrow_twice_scheduler_drop", "narrow_beside_unpin", "note_on_hold"),
    weaker("word load, reclaimable", "count_reclaimable", "word.load", "Acquire", "Relaxed",
           "reclaimable_then_write"),
    weaker("stack push, head load", "push", "head.load", "Acquire", "Relaxed",
           "exact_hold_scheduler_drop", "scheduler_drop"),
    weaker("stack push", "push", "(*stack).head.compare_exchange_weak", "Release", "Relaxed",
           "drained_after_unpin", "exact_hold", "unpin_reset"),
    weaker("stack push, failure", "push", "(*stack).head.compare_exchange_weak", "Acquire", "Relaxed",
           "scheduler_drop_alone", "scheduler_drop_two_leases"),
    weaker("stack take", "take", "Drained { next: self.head.swap", "Acquire", "Relaxed",
           "last_unpin_reclaim", "narrow_release"),
    weaker("stack close", "close", "head.swap", "AcqRel", "Acquire",
           "scheduler_drop_pin", "exact_hold_scheduler_drop"),
    weaker("stack close", "close", "head.swap", "AcqRel", "Release", "narrow_scheduler_drop"),
    weaker("fence of check", "check", "fence(", "Acquire", "Release",
           "check_reset", "check_vacate_front", "check_vacate_inside"),
    weaker("batch push", "push", "head.compare_exchange_weak(head, batch", "Release", "Relaxed",
           "lease_and_pin", tier=2),
    weaker("batch take", "take", "Returns { next: self.head.swap", "Acquire", "Relaxed",
           "storage_and_pin", tier=2),
]

FLAWS = [
    flaw("the old lease is closed before its successor is in the slot", "supersede", [
        ("self.shared.install(slot, lease);",
         "if let Some(before) = before { self.close(before); } self.shared.install(slot, lease);"),
    ], "history_release", "history_two_readers", "pin_release"),
    flaw("blocks are given up before the old lease is closed", "change", [
        ("self.supersede(key.slot(), life, Ended::No);",
         "self.give_up(life, key, group, before, lost.clone(), false);"),
        ("self.give_up(life, key, group, before, lost, false);",
         "self.supersede(key.slot(), life, Ended::No);"),
    ], "history_unpin", "unpin_replace", "unpin_vacate_inside"),
    flaw("what an ended life had is given up before its lease is closed", "release_life", [
        ("let ended = self.end_life(life, Ended::Released, true);",
         "let queue = std::mem::take(&mut self.lives[life].queue);"
         " let ended = self.end_life(life, Ended::Released, true);"
         " let closed = std::mem::replace(&mut self.lives[life].queue, queue);"),
        ("self.give_up_all(life, key, ended);",
         "self.give_up_all(life, key, ended); self.lives[life].queue.extend(closed);"),
    ], "narrow_twice", "refused_pin_and_last_unpin", "shared_block"),
    flaw("a loss forgets the leases before the one it has closed", "supersede", [
        ("self.close(before);", "self.lives[life].queue.clear(); self.close(before);"),
    ], "hull_of_the_pins_there_are", "drain_then_release"),
    flaw("a block waits only for the newest lease that covers it", "has_drained", [
        ("self.leases[id].undrained = false;",
         "self.leases[id].undrained = false;"
         " for block in std::mem::take(&mut self.leases[id].kept) { self.blocks.let_go(block); }"),
    ], "inherit_chain"),
    flaw("a version links to a hidden one", "supersede", [
        ("(unsafe { (*record.lease).before }, true)", "(record.lease.cast_const(), true)"),
    ], "snapshot_reuse_same_step", "view_intermediates"),
    flaw("hidden versions are kept like others, and linked past", "supersede", [
        ("Some(record) => (record.lease.cast_const(), false)",
         "Some(record) => (unsafe { (*record.lease).before }, false)"),
    ], "regrow_pin", "scheduler_drop_view"),
    flaw("a new life in a slot does not link to the old one", "supersede", [
        ("before: link,",
         "before: if before.is_some_and(|id| self.leases[id].life != Some(life))"
         " { std::ptr::null() } else { link },"),
    ], "snapshot_reuse_same_step"),
    flaw("a version is retired before its successor is published", "take_in", [
        ("opened <= self.epoch.0", "opened <= self.epoch.0 + 1"),
        ("self.tended < self.epoch.0", "true"),
    ], "view_unpublished", "snapshot_reuse_same_step"),
    flaw("a version is retired while its pins keep it", "retire_if_done", [
        ("|| record.queued", ""),
    ], "unpin_slot_reuse", "unpin_truncate_regrow", "unpin_preempt_release"),
    flaw("storage is retired with the change that replaces it", "change", [
        ("self.dispose(piece, user);", "self.batch.pieces.push(piece);"),
    ], "unpin_refill_front", "unpin_vacate_front"),
    flaw("view loads the slot before the epoch", "view", [
        ("let epoch = self.shared.epoch();", "let newest = self.shared.lease(key.slot());"),
        ("let newest = self.shared.lease(key.slot());", "let epoch = self.shared.epoch();"),
    ], "regrow_retire"),
    flaw("a plan carries an epoch from after its verdict", "plan_kind", [
        ("Ok(()) => Ok(request)",
         "Ok(()) => Ok(SaveRequest { epoch: self.shared.epoch(), ..request })"),
    ], "history_rollback"),
    flaw("a verdict loads the slot before the epoch", "clear_lease", [
        ("let published = self.shared.epoch();",
         "let lease = NonNull::new(self.shared.lease(request.key.slot()))?;"),
        ("let lease = NonNull::new(self.shared.lease(request.key.slot()))?;",
         "let published = self.shared.epoch();"),
    ], "forged_coming_epoch"),
    flaw("a snapshot loads each slot before the epoch", "build", [
        ("let epoch = shared.epoch();",
         "let all: Vec<_> = (0..shared.max_requests()).map(|slot| shared.lease(slot)).collect();"
         " let epoch = shared.epoch();"),
        ("at_epoch(shared.lease(slot), epoch)", "at_epoch(all[slot as usize], epoch)"),
    ], "snapshot_publish", "snapshot_reuse_same_step"),
    flaw("a snapshot loads the epoch again for each slot", "build", [
        ("at_epoch(shared.lease(slot), epoch)", "at_epoch(shared.lease(slot), shared.epoch())"),
    ], "snapshot_publish"),
    flaw("a pin is taken by an addition that is undone", "take", [
        ("if word.is_closed() {",
         "if word.is_closed() { lease.word.fetch_add(Word::ONE_PIN, Ordering::AcqRel);"
         " unsafe { give_back((&raw const *lease).cast_mut()) };"),
    ], "drain_then_admit", "drain_two_pins", "pin_replace"),
    flaw("a closed lease is taken for a drain at once", "pin_newest", [
        ("Take::Closed => closed = lease.as_ptr()",
         "Take::Closed => return Err(self.settle(request, Stale::Draining).into())"),
    ], "two_losses_outside", "inherit"),
    flaw("a pin does not widen the hull", "with_pin", [
        ("self.hull().widened_by(range)", "range"),
    ], "two_ranges_release"),
    flaw("a pin that finds none keeps the hull", "with_pin", [
        ("if pins == 0 { range }", "if self.0 == 0 { range }"),
    ], "hull_of_the_pins_there_are"),
    flaw("a pin is not judged by the key", "clear", [
        ("lease.key == request.key &&", ""),
    ], "forged_ended_key"),
    flaw("a life is not told from the one before it", "lives", [
        ("lease.key == key &&", ""),
    ], "pin_preempt", "pin_slot_reuse", "retired_in_turn"),
    flaw("the last unpin of an open lease hands it back", "drains", [
        ("self.0 & (Word::CLOSED | u64::from(Word::MAX_PINS) << 48) == Word::CLOSED | Word::ONE_PIN",
         "self.pins() == 1"),
    ], "history_append", "pin_batch_release", "replan_after_append"),
    flaw("the length is stored before the root", "grow", [
        ("self.root.store(",
         "self.extent.store(pack(table.extent.front, table.extent.len), Ordering::Release);"
         " self.root.store("),
    ], "history_regrow", "view_two_requests"),
    flaw("the length is stored before the entries", "append", [
        ("let table = &mut self.lives[life].tables[group.index()];",
         "let mut early = self.lives[life].tables[group.index()].state();"
         " early.extent.len += blocks.len() as u32; early.youngest = epoch;"
         " self.lease(life).cells(group.index()).grow(early);"
         " let table = &mut self.lives[life].tables[group.index()];"),
    ], "plan_two_requests", "plan_then_pin"),
    flaw("the youngest epoch is stored after the length", "grow", [
        ("self.youngest.store(table.youngest, Ordering::Relaxed);", ""),
        ("self.extent.store(pack(table.extent.front, table.extent.len), Ordering::Release);",
         "self.extent.store(pack(table.extent.front, table.extent.len), Ordering::Release);"
         " self.youngest.store(table.youngest, Ordering::Release);"),
    ], "plan_then_pin"),
    flaw("appending does not raise the youngest epoch", "append", [
        ("table.youngest = epoch;", ""),
    ], "check_truncate_regrow", "pin_truncate_regrow"),
    flaw("appending a hole does not widen the patch", "append", [
        ("table.patch = table.patch.with(len + first as u32, len + last as u32 + 1);",
         "let _ = (first, last);"),
    ], "grow_hole"),
    flaw("readers load the root before the length", "visible_len", [
        ("let len = cells.extent().len;", "let root = cells.root(); let len = cells.extent().len;"),
        ("let root = cells.root();", ""),
    ], "plan_then_pin"),
    flaw("regrowth writes in place", "truncated", [
        ("self.shared_tail = true;", ""),
    ], "unpin_truncate_regrow"),
    flaw("a pin lists its blocks without a guard", "blocks_of", [
        ("let _entered = shared.reclaim.enter();", ""),
    ], "regrow_pin"),
    flaw("invalidating lowers what is committed in place", "invalidate_life", [
        ("self.supersede(self.lives[life].key.slot(), life, Ended::No);", "self.lease(life).raise(0);"),
    ], "pin_invalidate"),
    flaw("a drain does not close the leases", "begin_drain_now", [
        ("for id in newest { self.close(id); }", "drop(newest);"),
    ], "drain_unpublished", "begin_drain"),
    flaw("a lease made while draining is open", "supersede", [
        ("ended == Ended::No && !self.draining", "ended == Ended::No"),
    ], "drain_then_admit"),
    flaw("a drain closes the leases before it sets the flag", "begin_drain_now", [
        ("self.shared.set_draining();", ""),
        ("for id in newest { self.close(id); }",
         "for id in newest { self.close(id); } self.shared.set_draining();"),
    ], "drain_for_good"),
    flaw("a reset ends the lives before it stores its epoch", "end_all", [
        ("self.shared.set_reset_floor(Epoch(self.epoch.0 + 1));", ""),
        ("for life in live { self.release_life(life); }",
         "for life in live { self.release_life(life); }"
         " self.shared.set_reset_floor(Epoch(self.epoch.0 + 1));"),
    ], "pin_reset"),
    flaw("the stack is taken by a load and a store", "take", [
        ("Drained { next: self.head.swap(ptr::null_mut(), Ordering::Acquire) }",
         "let next = self.head.load(Ordering::Acquire);"
         " self.head.store(ptr::null_mut(), Ordering::Release); Drained { next }"),
    ], "step_end_unpin", "unpin_release"),
    flaw("an ending scheduler leaves no counts behind", "wind_up", [
        ("for _ in 0..self.undrained {", "for _ in 0..0 {"),
    ], "last_handle_drop", "last_pins_drop"),
    flaw("an ending scheduler does not close the stack", "close", [
        ("self.head.swap(closed(), Ordering::AcqRel)",
         "self.head.swap(ptr::null_mut(), Ordering::AcqRel)"),
    ], "narrow_after_scheduler_drop", "exact_hold_scheduler_drop"),
    flaw("an ending scheduler does not close the leases", "wind_up", [
        ("self.close(id);", "let _ = id;"),
    ], "last_handle_drop"),
    flaw("the last unpin after the scheduler's end frees its lease", "push", [
        ("Arc::decrement_strong_count(shared);",
         "drop(Box::from_raw(lease)); Arc::decrement_strong_count(shared);"),
    ], "scheduler_drop"),
    flaw("a narrowed pin ends the old one before its blocks are held", "adopt", [
        ("let held = unsafe { (*lease).held.as_ref() };",
         "let held = unsafe { (*lease).held.as_ref() };"
         " if let Some(old) = held.map(|held| held.instead_of)"
         " && unsafe { Word((*old).word.fetch_sub(Word::ONE_PIN, Ordering::AcqRel)) }.drains()"
         " { self.taken(old); }"),
        ("[instead_of, Some(lease)]", "[instead_of.filter(|_| false), Some(lease)]"),
    ], "narrow_and_unpin"),
    flaw("a narrowed pin ends the old one by itself", "hold_alone", [
        ("self.lease = new;", "give_back(self.lease.as_ptr()); self.lease = new;"),
    ], "narrow_and_unpin"),
    flaw("a step's end frees what a pin still holds", "is_free", [
        ("self.listed == 0 && self.held == 0 &&", "self.listed == 0 &&"),
    ], "two_unpins_one_lease", "unpin_preempt", "two_pins_release"),
    flaw("a check does not ask whether the index is draining", "verdict", [
        ("&& !self.shared.is_draining()", ""),
    ], "check_drain", "drain_for_good"),
    flaw("the lease that ends a life does not say so", "lives", [
        ("&& lease.ended == Ended::No", ""),
    ], "check_learned_of_loss", "pin_release"),
    flaw("a slot's history forgets that a life was preempted", "followed_by", [
        ("| u64::from(ended == Ended::Preempted)", "| u64::from(ended == Ended::No)"),
    ], "pin_preempt_release", "check_preempt_release"),
    flaw("a verdict does not ask what is committed", "needs_commits", [
        ("geometry.tracks_commits() && request.kind == Kind::Save",
         "geometry.tracks_commits() && request.kind == Kind::Hold"),
    ], "history_commit", "pin_commit"),
    flaw("a block that fills a hole is taken for an old one", "replace_now", [
        ("Entry { block: shown, since: workshop.epoch }", "Entry { block: shown, since: 0 }"),
    ], "pin_replace"),
    flaw("what is retired comes back at once", "retire", [
        ("unsafe { entered.guard.defer_unchecked(move || returned.push(batch)) };",
         "returned.push(batch);"),
    ], "lease_and_pin", "storage_and_view", tier=2),
    flaw("a reader enters without a guard", "enter", [
        ("self.enter_as(registered)", "unsafe { Entered { guard: std::ptr::read("
         "crossbeam_epoch::unprotected()), tally: &*registered.tally } }"),
    ], "lease_and_pin", tier=2),
    flaw("a version is retired before its successor is published, tier 2", "take_in", [
        ("opened <= self.epoch.0", "opened <= self.epoch.0 + 1"),
    ], "lease_and_view", tier=2),
    flaw("storage is retired with the change that replaces it, tier 2", "change", [
        ("self.dispose(piece, user);", "self.batch.pieces.push(piece);"),
    ], "storage_and_old_pin", tier=2),
    flaw("a version is retired while its pins keep it, tier 2", "retire_if_done", [
        ("|| record.queued", ""),
    ], "lease_and_unpin", tier=2),
]
