//! The flight recorder writes what happened, in order and in the words of scripts.
