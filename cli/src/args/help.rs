//! What `--help` shows below the options: examples, and what exit statuses mean.

pub(super) const TENURE: &str = "\
Examples:
  tenure replay                              the built-in workload, some seconds
  tenure replay --report replay.html         the same, as a page with charts
  tenure scenario incident.tenure            does the index still answer as the script says?
  tenure profile --quick                     what every operation costs here
  tenure completions bash > tenure.bash      completion of all of this

`tenure COMMAND --help` shows more examples and all options.

Exit status: 0 where all went well, 1 where a check found something wrong or output could not be \
written, 2 for bad usage or unreadable input, 130 when a second Ctrl-C ended it.";

pub(super) const REPLAY: &str = "\
Examples:
  tenure replay                                        the built-in workload
  tenure replay conversation_trace.jsonl --speed 10    a trace, ten times as fast
  tenure replay --policy mirror --blocks 20000 --store-latency exp:200
                                                       what goes wrong without pins
  tenure replay --index mutex --save-range whole       the same work over a mutex
  tenure replay --window 2048 --requests 500           a model with a sliding window
  tenure replay --report replay.html                   a page with charts, policies compared
  tenure replay --requests 20 --record run.tenure && tenure scenario run.tenure
                                                       what happened, and once more
  tenure replay --metrics 127.0.0.1:9464               and: curl 127.0.0.1:9464/metrics
  tenure replay --json --quiet | jq .stale             one figure

A latency is fixed:N, uniform:A..B or exp:MEAN, in steps.
Ctrl-C stops the replay and tells what was measured so far; a second one ends the process.

Exit status: 0 where all went well, 1 where wrong content was read under a pin, the account of \
saves does not balance, blocks are missing at the end or output could not be written, 2 for bad usage or \
a bad trace, 130 when a second Ctrl-C ended it. docs/replay.md says what each figure means.";

pub(super) const SCENARIO: &str = "\
Examples:
  tenure scenario incident.tenure       the first line whose answer differs, if any
  tenure scenario --quiet cases/*.tenure && echo all as expected

A script, here one that shows that a pinned block is not free:
  index blocks 8
  admit r1
  assign r1 3 5
  publish               -> epoch 1
  plan s1 r1 0..32      -> ok
  pin s1 as j1          -> ok
  release r1            -> freed 0 held 2
  complete j1 0         -> last
  expect free 8

Exit status: 0 where every script answered as it says, 1 where an answer differed, 2 where a \
file could not be read or is not a script.";

pub(super) const PROFILE: &str = "\
Examples:
  tenure profile --quick --json                single operations and peers, within a minute
  tenure profile --report profile.html         everything as a page with charts, in about two minutes
  tenure profile --svg plots                   every plot as a file
  tenure profile --threads 0,32,64             with more threads

Exit status: 0 where all was measured, whether or not goals are met, 1 where something failed or \
could not be written, 2 for bad usage. docs/performance.md says how it is measured.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish";
