#!/usr/bin/env python3
"""Shows that the loom models can fail: plants one flaw at a time and expects the models named for
it to find it.

The flaws (`planted.py`) are every atomic ordering of the core made weaker, and steps of the
protocol left out or taken in the wrong order. Each is planted in a scratch copy of the repository. The
script fails where a named model passes, where a flaw does not fit the code any more, and where an
ordering of the core has no flaw.

    loom-tests/weaken.py                 all of them
    loom-tests/weaken.py NAME...         those whose names contain one of the words
    loom-tests/weaken.py --survey ...    against every model, each cut short after a few seconds
    loom-tests/weaken.py --check         only whether all of them still fit the code
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from planted import FLAWS, ORDERINGS

ROOT = Path(__file__).resolve().parent.parent
# The stand-in for reclamation, and counts, which loom does not see.
BEYOND = {"counting.rs", "tally.rs", "stats.rs"}
SURVEY_SECONDS = 5


class Misfit(Exception):
    """A flaw that does not fit the code."""


def pattern(snippet):
    """Matches a piece of code however it is broken into lines."""
    tokens = re.findall(r"\w+|[^\w\s]", snippet)
    parts = [rf"\b{t}\b" if t[0].isalnum() else re.escape(t) for t in tokens]
    return r"\s*".join((r",?\s*" if part in (r"\)", r"\]", r"\}") else "") + part for part in parts)


def bodies(text, function):
    """Where the bodies of the functions of this name begin and end."""
    for found in re.finditer(pattern(f"fn {function}"), text):
        at = text.index("{", found.end())
        depth = 0
        for end in range(at, len(text)):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            if depth == 0:
                yield at + 1, end
                break


def edits_in(flaw, text, start, end):
    """The places to change in one function, as (start, end, replacement), if they are all there."""
    inside, edits = text[start:end], []
    for old, new in flaw.edits:
        found = list(re.finditer(pattern(old), inside))
        if len(found) != 1:
            return None
        found = found[0]
        if flaw.is_ordering:
            was, becomes = new
            found = re.compile(rf"\bOrdering::{was}\b").search(inside, found.end())
            new = f"Ordering::{becomes}"
            if found is None:
                return None
        edits.append((start + found.start(), start + found.end(), new))
    return sorted(edits, reverse=True)


def sources(tree):
    for path in sorted((tree / "src").rglob("*.rs")):
        if not BEYOND & set(path.relative_to(tree / "src").parts):
            yield path, path.read_text().split("#[cfg(test)]\nmod tests")[0]


def place(flaw, tree):
    """The one file that the flaw fits, and the places to change in it."""
    found = [
        (path, edits)
        for path, text in sources(tree)
        for start, end in bodies(text, flaw.function)
        if (edits := edits_in(flaw, text, start, end))
    ]
    if len(found) != 1:
        raise Misfit(f"{flaw.name}: fits {len(found)} functions named {flaw.function}, not one")
    return found[0]


def plant(flaw, tree):
    path, edits = place(flaw, tree)
    before = after = path.read_text()
    for start, end, new in edits:
        after = after[:start] + new + after[end:]
    path.write_text(after)
    return path, before


def check_fit():
    """Whether every flaw fits the code, and every ordering has one."""
    misfits, covered = [], set()
    for flaw in ORDERINGS + FLAWS:
        try:
            path, edits = place(flaw, ROOT)
            covered.update((path, start) for start, _, _ in edits)
        except Misfit as misfit:
            misfits.append(str(misfit))
    for path, code in sources(ROOT):
        for found in re.finditer(r"\bOrdering::(Acquire|Release|AcqRel|SeqCst)\b", code):
            if (path, found.start()) not in covered:
                line = code[: found.start()].count("\n") + 1
                misfits.append(f"{path.relative_to(ROOT)}:{line}: no flaw weakens {found[0]}")
    return misfits


def run_models(tree, target, tier, models):
    """Runs models; answers which failed and how, or None where nothing was built."""
    flags = "--cfg loom" if tier == 1 else "--cfg loom --cfg crossbeam_loom"
    env = dict(os.environ, RUSTFLAGS=flags, CARGO_TARGET_DIR=str(target / f"tier{tier}"))
    env.update(CARGO_PROFILE_RELEASE_DEBUG="0", CARGO_INCREMENTAL="1")
    if not models:
        env["LOOM_MAX_DURATION"] = str(SURVEY_SECONDS)
    command = ["cargo", "test", "-q", "-p", "loom-tests", "--release", "--test", f"tier{tier}"]
    command += ["--", "--exact", *models] if models else []
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    if not re.search(r"^\d+ models, \d+ failed", done.stdout, re.M):
        print(done.stdout[-2000:], done.stderr[-4000:], file=sys.stderr)
        return None
    ended = {}
    failed = re.search(r"^failed: (.*)$", done.stdout, re.M)
    for name in failed[1].split() if failed else []:
        ended[name] = "crashed"
    for name, how in re.findall(r"^model (\w+): FAILED(.*)$", done.stdout, re.M):
        at = re.match(r" at execution (\d+)", how)
        ended[name] = f"at {at[1]}" if at else "cut" if "cut short" in how else "at the end"
    return {name: how for name, how in ended.items() if how != "cut"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--survey", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()

    misfits = check_fit()
    for misfit in misfits:
        print(f"MISFIT {misfit}")
    if misfits or arguments.check:
        return bool(misfits)

    chosen = [
        flaw
        for flaw in ORDERINGS + FLAWS
        if not arguments.names or any(name in flaw.name for name in arguments.names)
    ]
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "planted"
    missed = []
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tenure"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns("target*", ".git"))
        for tier in () if arguments.survey else (1, 2):
            named = {model for flaw in chosen if flaw.tier == tier for model in flaw.models}
            ended = run_models(tree, target, tier, sorted(named)) if named else {}
            if ended is None or ended:
                print(f"without any flaw: {ended or 'nothing was built'}")
                return True
        width = max(len(flaw.name) for flaw in chosen)
        for flaw in chosen:
            began = time.monotonic()
            path, before = plant(flaw, tree)
            models = [] if arguments.survey else flaw.models
            ended = run_models(tree, target, flaw.tier, models)
            path.write_text(before)
            if ended is None:
                caught = "DOES NOT COMPILE"
            else:
                caught = ", ".join(f"{name} {how}" for name, how in sorted(ended.items()))
            if ended is None or not set(flaw.models) <= set(ended) or not ended:
                missed.append(flaw.name)
                missing = sorted(set(flaw.models) - set(ended or {}))
                caught += "   MISSED BY " + (", ".join(missing) or "ALL")
            seconds = time.monotonic() - began
            print(f"{flaw.name:{width}} | {caught} | {seconds:.0f} s", flush=True)
    print(f"{len(chosen)} flaws, {len(missed)} missed")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
