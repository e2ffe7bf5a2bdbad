//! What happened, call by call, and whether it could have happened one call at a time.
//!
//! Loom does not run in real time, so the order that must be kept is what happens before what: each
//! thread's own calls, and what a [`Signal`] hands on.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use loom::sync::atomic::{AtomicUsize, Ordering};

/// The answers that calls, made one after the other, may give.
pub trait Spec: Clone {
    /// A call and what it answered.
    type Event: Debug;

    /// The state after the call, if it may answer so.
    fn after(&self, event: &Self::Event) -> Option<Self>;
}

/// How many calls of each thread are known to have returned.
type Clock = Vec<usize>;

struct Recorded<E> {
    event: E,
    known: Clock,
}

/// The calls of each thread.
pub struct History<E>(Arc<Vec<Mutex<Vec<Recorded<E>>>>>);

/// One thread's end of a history.
pub struct Recorder<E> {
    history: History<E>,
    thread: usize,
    known: Clock,
}

/// Hands on, from one thread to others, what it knows to have happened.
pub struct Signal {
    sent: AtomicUsize,
    clock: Mutex<Clock>,
}

impl<E> Clone for History<E> {
    fn clone(&self) -> Self {
        History(self.0.clone())
    }
}

impl<E: Debug> History<E> {
    /// One recorder a thread.
    pub fn new<const THREADS: usize>() -> (History<E>, [Recorder<E>; THREADS]) {
        let history = History(Arc::new((0..THREADS).map(|_| Mutex::default()).collect()));
        let recorder =
            |thread| Recorder { history: history.clone(), thread, known: vec![0; THREADS] };
        (history.clone(), std::array::from_fn(recorder))
    }

    /// Fails the model where no order of the calls explains what they answered. Each history is
    /// looked at once in a search.
    pub fn check<S: Spec<Event = E>>(&self, start: &S) {
        thread_local! {
            static CHECKED: Mutex<HashSet<String>> = Mutex::default();
        }
        let threads: Vec<Vec<Recorded<E>>> =
            self.0.iter().map(|thread| std::mem::take(&mut *thread.lock().unwrap())).collect();
        let mut story = String::new();
        for (thread, calls) in threads.iter().enumerate() {
            for Recorded { event, known } in calls {
                story += &format!("  {thread}: {event:?}, knowing {known:?}\n");
            }
        }
        if CHECKED.with(|checked| checked.lock().unwrap().insert(story.clone())) {
            assert!(
                explained(&threads, &mut vec![0; threads.len()], start),
                "no order explains\n{story}"
            );
        }
    }
}

/// Whether the calls that are left can come one after the other.
fn explained<S: Spec>(threads: &[Vec<Recorded<S::Event>>], done: &mut Clock, state: &S) -> bool {
    let mut all_done = true;
    for (thread, calls) in threads.iter().enumerate() {
        let Some(Recorded { event, known }) = calls.get(done[thread]) else { continue };
        all_done = false;
        if known.iter().zip(&*done).all(|(known, done)| known <= done)
            && let Some(next) = state.after(event)
        {
            done[thread] += 1;
            if explained(threads, done, &next) {
                return true;
            }
            done[thread] -= 1;
        }
    }
    all_done
}

impl<E> Recorder<E> {
    /// Records a call that has just returned.
    pub fn note(&mut self, event: E) {
        let known = self.known.clone();
        self.known[self.thread] += 1;
        self.history.0[self.thread].lock().unwrap().push(Recorded { event, known });
    }

    /// Says what this thread knows.
    pub fn send(&self, signal: &Signal) {
        signal.clock.lock().unwrap().clone_from(&self.known);
        signal.sent.store(1, Ordering::Release);
    }

    /// Learns what was sent, if it was.
    pub fn receive(&mut self, signal: &Signal) {
        if signal.sent.load(Ordering::Acquire) == 1 {
            for (mine, theirs) in self.known.iter_mut().zip(&*signal.clock.lock().unwrap()) {
                *mine = (*mine).max(*theirs);
            }
        }
    }
}

impl Signal {
    /// Nothing is sent yet. It can be sent once.
    pub fn new() -> Arc<Signal> {
        Arc::new(Signal { sent: AtomicUsize::new(0), clock: Mutex::default() })
    }
}
