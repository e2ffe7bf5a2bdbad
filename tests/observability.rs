//! What an operator gets to see: statistics, leaks, and events in the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tenure::{
    BlockId, Config, GroupId, Groups, Index, Kind, Outcome, Pin, Rank, RequestKey, SaveJobs,
    SaveTrackers, Scheduler, Stale, StepRequest, StepSave, Warnings, reconcile,
};

const G0: GroupId = GroupId(0);

fn blocks(ids: impl IntoIterator<Item = u32>) -> Vec<BlockId> {
    ids.into_iter().map(BlockId).collect()
}

/// An index of 32 blocks of one token, and a published request over blocks `0..8`.
fn eight() -> (Scheduler, Index, RequestKey) {
    let (mut scheduler, index) = Config::new(32).block_sizes([1]).build().unwrap();
    let key = scheduler.admit("r1").unwrap();
    scheduler.assign(key, G0, &blocks(0..8)).unwrap();
    scheduler.publish();
    (scheduler, index, key)
}

fn pin(index: &Index, key: RequestKey, tokens: std::ops::Range<u64>) -> Pin {
    index.pin(&index.plan(key, tokens, Groups::ALL).unwrap()).unwrap()
}

mod statistics {
    use super::*;

    #[test]
    fn pins_of_all_threads_are_counted_exactly() {
        let (_scheduler, index, key) = eight();
        let save = index.plan(key, 0..4, Groups::ALL).unwrap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let index = index.clone();
                thread::spawn(move || {
                    let mut out = Vec::new();
                    for _ in 0..250 {
                        drop(index.pin(&save).unwrap());
                        index.pin_batch(&[save, save, save], &mut out);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(index.stats().pins, 4 * 250 * 4);
        assert_eq!(index.stats().refused_total(), 0);
    }

    #[test]
    fn leases_that_drain_are_counted_with_their_blocks_and_age() {
        let (mut scheduler, index, key) = eight();
        let first = pin(&index, key, 0..4);
        let _ = scheduler.truncate(key, G0, 2).unwrap();
        let stats = index.stats();
        assert_eq!((stats.draining, stats.draining_blocks, stats.draining_age), (1, 2, 0));
        scheduler.publish();
        scheduler.publish();
        let second = scheduler.hold(&blocks([0, 1])).unwrap();
        let stats = index.stats();
        assert_eq!((stats.draining, stats.draining_blocks, stats.draining_age), (2, 4, 2));
        drop(first);
        scheduler.publish();
        assert_eq!(scheduler.counts().held, 0);
        let stats = index.stats();
        assert_eq!((stats.draining, stats.draining_blocks, stats.draining_age), (1, 2, 1));
        drop(second);
        let _ = scheduler.release(key).unwrap();
        let stats = index.stats();
        assert_eq!((stats.draining, stats.draining_blocks, stats.draining_age), (0, 0, 0));
        assert_eq!((stats.free, stats.owned, stats.held, stats.live), (32, 0, 0, 0));
    }

    #[test]
    fn a_refusal_that_a_new_plan_would_have_spared_is_told_apart() {
        let (mut scheduler, index, key) = eight();
        let save = index.plan(key, 0..8, Groups::ALL).unwrap();
        let _ = scheduler.replace(key, G0, 3, BlockId(20)).unwrap();
        let reassigned = Stale::Reassigned { group: G0, position: 3 };
        // Not published yet, so there is no better plan.
        assert_eq!(index.pin(&save).unwrap_err(), reassigned.into());
        assert_eq!(index.stats().refused_but_replannable, 0);
        scheduler.publish();
        assert_eq!(index.pin(&save).unwrap_err(), reassigned.into());
        assert!(index.replan(&save).is_ok());
        assert_eq!(index.stats().refused_but_replannable, 1);
        let _ = scheduler.release(key).unwrap();
        assert!(index.pin(&save).is_err());
        let stats = index.stats();
        assert_eq!(stats.refused_but_replannable, 1);
        let by_reason: BTreeMap<&str, u64> =
            stats.refused_by_reason().filter(|&(_, times)| times > 0).collect();
        assert_eq!(by_reason, BTreeMap::from([("reassigned", 2), ("gone", 1)]));
    }

    #[test]
    fn garbage_is_counted_until_it_is_reused() {
        let (mut scheduler, index, key) = eight();
        for block in 8..20 {
            let _ = scheduler.truncate(key, G0, 0).unwrap();
            scheduler.assign(key, G0, &blocks([block])).unwrap();
        }
        scheduler.publish();
        let _ = scheduler.counts();
        assert!(index.stats().retained > 0 && index.stats().retained_pieces > 0);
        for _ in 0..50 {
            scheduler.publish();
            let _ = scheduler.counts();
        }
        assert_eq!((index.stats().retained, index.stats().retained_pieces), (0, 0));
    }

    #[test]
    fn snapshots_are_counted_as_they_are_built() {
        let (mut scheduler, index, _) = eight();
        index.snapshot();
        index.snapshot();
        assert_eq!(index.stats().snapshots, 1);
        scheduler.publish();
        index.snapshot();
        assert_eq!((index.stats().snapshots, index.stats().epoch), (2, scheduler.epoch()));
    }
}

mod leaks {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "leaks on purpose")]
    fn a_leaked_pin_is_found_by_its_note() {
        let (mut scheduler, index, key) = eight();
        let other = scheduler.admit("r2").unwrap();
        scheduler.assign(other, G0, &blocks(8..12)).unwrap();
        scheduler.publish();
        // Somebody forgets a pin; others are well.
        std::mem::forget(pin(&index, key, 2..5).with_note("offload worker 3"));
        let well = pin(&index, other, 0..4).with_note("prefix save");
        let epoch = scheduler.epoch();
        let _ = scheduler.release(key).unwrap();
        let _ = scheduler.release(other).unwrap();
        for _ in 0..3 {
            scheduler.publish();
        }
        drop(well);
        let draining = scheduler.draining();
        assert_eq!(draining.len(), 1, "{draining:#?}");
        let leak = &draining[0];
        assert_eq!(leak.note, Some("offload worker 3"));
        assert_eq!((leak.label.as_deref(), leak.key), (Some("r1"), Some(key)));
        assert_eq!((leak.kind, leak.tokens.clone()), (Some(Kind::Save), 2..5));
        assert_eq!((&leak.blocks, leak.pins, leak.since), (&blocks(2..5), 1, epoch));
        assert_eq!(scheduler.counts().held, 3, "what nobody listed outside the note is free");
    }

    #[test]
    fn versions_of_tables_and_holds_are_listed_oldest_first() {
        let (mut scheduler, index, key) = eight();
        let load = index.pin_load(key, 1..3, Groups::ALL).unwrap();
        let _ = scheduler.vacate(key, G0, 0..2).unwrap();
        scheduler.publish();
        let hold = scheduler.hold(&blocks([7])).unwrap();
        let draining = scheduler.draining();
        assert_eq!(draining.len(), 2);
        assert_eq!((draining[0].kind, draining[0].tokens.clone()), (None, 1..3));
        assert_eq!((&draining[0].blocks, draining[0].since.0), (&blocks([1]), 1));
        assert_eq!((draining[1].kind, draining[1].label.clone()), (Some(Kind::Hold), None));
        assert_eq!((&draining[1].blocks, draining[1].since.0), (&blocks([7]), 2));
        drop((load, hold));
        assert_eq!(scheduler.draining(), []);
    }

    #[test]
    fn a_note_changes_nothing_else_about_a_pin() {
        let (mut scheduler, index, key) = eight();
        let mut noted = pin(&index, key, 0..6).with_note("a").with_note("b");
        assert_eq!((noted.note(), noted.tokens(), noted.kind()), (Some("b"), 0..6, Kind::Save));
        assert_eq!((noted.key(), noted.label().as_deref()), (Some(key), Some("r1")));
        assert_eq!(noted.blocks(), blocks(0..6));
        noted.narrow(1..3).unwrap();
        assert_eq!((noted.note(), noted.blocks_of(G0)), (Some("b"), blocks(1..3)));
        let released = scheduler.release(key).unwrap();
        assert_eq!((released.freed().len(), released.held()), (6, 2));
        scheduler.audit().unwrap();

        let hold = scheduler.hold(&blocks([1])).unwrap().with_note("copy target");
        drop(noted);
        assert_eq!(scheduler.reclaim(), blocks([2]));
        assert_eq!(scheduler.draining()[0].note, Some("copy target"));
        drop(hold);
        assert_eq!(scheduler.reclaim(), blocks([1]));
        scheduler.audit().unwrap();
        assert_eq!(scheduler.counts().free, 32);
    }

    #[test]
    fn a_note_after_the_end_of_the_scheduler_is_lost_and_nothing_else() {
        let (scheduler, index, key) = eight();
        let pin = pin(&index, key, 0..2);
        drop(scheduler);
        let pin = pin.with_note("too late");
        assert_eq!((pin.note(), pin.blocks()), (None, blocks(0..2)));
    }
}

mod log {
    use super::*;

    /// One event: its name, level and fields as text.
    #[derive(Clone, Debug)]
    struct Event {
        name: &'static str,
        level: tracing::Level,
        fields: BTreeMap<&'static str, String>,
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<Event>>>);

    impl tracing::field::Visit for Event {
        fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
            self.fields.insert(field.name(), format!("{value:?}"));
        }
        fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
            self.fields.insert(field.name(), value.to_owned());
        }
    }

    impl tracing::Subscriber for Log {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target() == "tenure"
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            let metadata = event.metadata();
            let mut read =
                Event { name: metadata.name(), level: *metadata.level(), fields: BTreeMap::new() };
            event.record(&mut read);
            read.fields.remove("message");
            self.0.lock().unwrap().push(read);
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }

    /// Runs `work` and answers what it told: `LEVEL name field=value ...`, fields by name.
    fn told(work: impl FnOnce()) -> Vec<String> {
        let log = Log::default();
        tracing::subscriber::with_default(log.clone(), work);
        let events = std::mem::take(&mut *log.0.lock().unwrap());
        let line = |event: Event| {
            let fields = event.fields.iter().map(|(name, value)| format!(" {name}={value}"));
            format!("{} {}{}", event.level, event.name, fields.collect::<String>())
        };
        events.into_iter().map(line).collect()
    }

    #[test]
    fn lives_and_resets() {
        let told = told(|| {
            let (mut scheduler, _index, key) = eight();
            let successor = scheduler.preempt(key).unwrap().successor;
            scheduler.publish();
            let _ = scheduler.release(successor).unwrap();
            scheduler.admit("r2").unwrap();
            scheduler.reset().unwrap();
            let _ = scheduler.reset_force();
        });
        assert_eq!(
            told,
            [
                "DEBUG life_opened epoch=0 key=0.1 label=r1",
                "DEBUG life_ended epoch=1 how=preempted key=0.1 label=r1",
                "DEBUG life_opened epoch=1 key=0.2 label=r1",
                "DEBUG life_ended epoch=2 how=released key=0.2 label=r1",
                "DEBUG life_opened epoch=2 key=0.3 label=r2",
                "INFO reset epoch=2 forced=false lives=1",
                "DEBUG life_ended epoch=2 how=released key=0.3 label=r2",
                "INFO reset epoch=2 forced=true lives=0",
            ]
        );
    }

    #[test]
    fn jobs() {
        let (mut scheduler, index, key) = eight();
        let told = told(|| {
            let now = Instant::now();
            let mut jobs = SaveJobs::new();
            let save = index.plan(key, 0..4, Groups::ALL).unwrap();
            let first = jobs.pin(&index, &save, [Rank(0), Rank(1)], now).unwrap();
            let hold = scheduler.hold(&blocks([7])).unwrap();
            let second = jobs.open(hold, [Rank(0)], now);
            jobs.complete(first, Rank(1), Outcome::Failed);
            let later = now + Duration::from_secs(60);
            for _ in 0..3 {
                assert_eq!(jobs.overdue(Duration::from_secs(30), later).len(), 2);
            }
            // A look at what stands in the way of a shutdown is no news.
            assert_eq!(jobs.drain(later, later).open.len(), 2);
            jobs.complete(first, Rank(0), Outcome::Done);
            jobs.force_end(second, later).unwrap();
        });
        assert_eq!(
            told,
            [
                "DEBUG job_opened end=4 job=1 kind=Save label=r1 ranks=2 start=0",
                "DEBUG job_opened end=0 job=2 kind=Hold ranks=1 start=0",
                "WARN job_overdue age_ms=60000 job=1 label=r1 ranks=[Rank(0)]",
                "WARN job_overdue age_ms=60000 job=2 ranks=[Rank(0)]",
                "DEBUG job_ended failed=true job=1",
                "WARN job_forced blocks=1 job=2 ranks=[Rank(0)]",
            ]
        );
    }

    #[test]
    fn dropped_saves() {
        let (mut scheduler, index, key) = eight();
        let request = index.plan(key, 0..4, Groups::ALL).unwrap();
        let _ = scheduler.release(key).unwrap();
        scheduler.publish();
        let save = StepSave { request, offer: None, ranks: vec![Rank(0)], replan: false };
        let entry = StepRequest::<()> { label: "r1".into(), load: None, save: Some(save) };
        let mut step = [entry.clone(), entry.clone()];
        let mut unjudged = [entry];
        let told = told(|| {
            let (mut jobs, mut trackers, mut warnings) =
                (SaveJobs::new(), SaveTrackers::new(), Warnings::new());
            let now = Instant::now();
            for (step, index) in [(&mut step[..], Some(&index)), (&mut unjudged[..], None)] {
                let _ = reconcile(step, index, &mut jobs, &mut trackers, &mut warnings, now);
            }
        });
        assert_eq!(
            told,
            [
                "WARN warning label=r1 reason=gone suppressed=0",
                "DEBUG save_dropped end=4 epoch=2 label=r1 planned=1 reason=gone start=0",
                "DEBUG save_dropped end=4 epoch=2 label=r1 planned=1 reason=gone start=0",
                "WARN warning label=r1 reason=no-index suppressed=0",
                "DEBUG save_dropped end=4 label=r1 planned=1 reason=no-index start=0",
            ]
        );
    }

    #[test]
    fn held_blocks_are_told_when_they_cross_the_limit() {
        let (mut scheduler, index, key) = eight();
        let told = told(|| {
            scheduler.warn_held_above(Some(3));
            let pins = [pin(&index, key, 0..3), pin(&index, key, 0..8)];
            let _ = scheduler.vacate(key, G0, 0..3).unwrap();
            assert_eq!(scheduler.counts().held, 3, "at the limit");
            let _ = scheduler.truncate(key, G0, 6).unwrap();
            let _ = scheduler.truncate(key, G0, 4).unwrap();
            drop(pins);
            scheduler.publish();
            let _ = scheduler.counts();
        });
        assert_eq!(
            told,
            [
                "WARN held_above draining=1 epoch=1 held=5 limit=3",
                "INFO held_below draining=0 epoch=2 held=0 limit=3",
            ]
        );
    }

    #[test]
    fn a_drain() {
        let (mut scheduler, index, key) = eight();
        let told = told(|| {
            let hold = scheduler.hold(&blocks([1])).unwrap();
            let pin = pin(&index, key, 0..3);
            scheduler.begin_drain();
            scheduler.begin_drain();
            assert!(!scheduler.drained());
            drop((hold, pin));
            assert!(scheduler.drained() && scheduler.drained());
        });
        assert_eq!(told, ["INFO draining draining=1 epoch=1", "INFO drained held=0"]);
    }

    #[test]
    fn nothing_is_told_where_pins_are_taken() {
        let (_scheduler, index, key) = eight();
        let told = told(|| {
            let save = index.plan(key, 0..4, Groups::ALL).unwrap();
            let noted = index.pin(&save).unwrap().with_note("quiet");
            assert!(index.check(&save).is_ok() && index.plan(key, 0..9, Groups::ALL).is_err());
            drop((noted, index.pin(&save), index.snapshot()));
        });
        assert_eq!(told, [""; 0]);
    }
}

#[cfg(feature = "metrics")]
mod metrics {
    use std::time::Instant;

    use ::metrics::with_local_recorder;
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn figures_go_out_by_the_conventions_of_prometheus() {
        let (mut scheduler, index, key) = eight();
        let mut jobs = SaveJobs::new();
        let save = index.plan(key, 0..4, Groups::ALL).unwrap();
        jobs.pin(&index, &save, [Rank(0)], Instant::now()).unwrap();
        let _ = scheduler.release(key).unwrap();
        assert!(jobs.pin(&index, &save, [Rank(0)], Instant::now()).is_err());

        let recorder = PrometheusBuilder::new().build_recorder();
        let text = with_local_recorder(&recorder, || {
            tenure::describe_metrics();
            for _ in 0..2 {
                tenure::publish_metrics(&index.stats(), &[("rank", "1")]);
                tenure::publish_job_metrics(&jobs, 0, &[("rank", "1")]);
            }
            recorder.handle().render()
        });
        for line in [
            "# TYPE tenure_blocks gauge",
            r#"tenure_blocks{rank="1",state="free"} 28"#,
            r#"tenure_blocks{rank="1",state="held"} 4"#,
            r#"tenure_blocks{rank="1",state="owned"} 0"#,
            r#"tenure_draining_leases{rank="1"} 1"#,
            r#"tenure_draining_blocks{rank="1"} 4"#,
            "# TYPE tenure_pins_total counter",
            r#"tenure_pins_total{rank="1"} 1"#,
            r#"tenure_publishes_total{rank="1"} 1"#,
            r#"tenure_refused_total{rank="1",reason="gone"} 1"#,
            r#"tenure_refused_total{rank="1",reason="reassigned"} 0"#,
            r#"tenure_jobs_pending{rank="1"} 1"#,
            r#"tenure_jobs_stale_total{rank="1",reason="gone"} 1"#,
            r#"tenure_jobs_ended_total{rank="1",outcome="done"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
        }
        let undescribed =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).filter(|typed| {
                let name = typed.split(' ').next().unwrap();
                !text.contains(&format!("# HELP {name} "))
            });
        assert_eq!(undescribed.collect::<Vec<_>>(), [""; 0]);
    }
}
