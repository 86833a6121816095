//! Points between stores to shared memory at which a process can be made to die, for the tests of what its peers notice.
//!
//! `die_point!(11 "arrival_record")` names point 11 of [`TABLE`]. In a library that is built without the feature `die-points`
//! it is nothing at all. With the feature, a process whose environment has `PENNY_DIE_AT=arrival_record:3` kills itself by
//! SIGKILL when it passes that point for the third time. No default build and no build of the workspace has the feature:
//! `ffi-tests/tests/recovery/die_points.rs` builds a program of its own with it.

/// Marks a point of the table.
#[cfg(feature = "die-points")]
macro_rules! die_point {
    ($number:literal $name:literal) => {
        $crate::die_points::pass($number, $name)
    };
}
/// Marks a point of the table. This build has no such points.
#[cfg(not(feature = "die-points"))]
macro_rules! die_point {
    ($number:literal $name:literal) => {};
}

/// A point: its number, its name, and what has been stored when a process dies there.
#[cfg(any(test, feature = "die-points"))]
pub struct DiePoint {
    /// The number; its hundreds and tens tell the protocol.
    pub number: u32,
    /// The name by which `PENNY_DIE_AT` knows it.
    pub name: &'static str,
    /// The step just before the point.
    pub after: &'static str,
}

#[cfg(any(test, feature = "die-points"))]
macro_rules! table {
    ($($number:literal $name:literal $after:literal)*) => {
        &[$(DiePoint { number: $number, name: $name, after: $after }),*]
    };
}

/// Every point, in the order of the protocols.
#[cfg(any(test, feature = "die-points"))]
pub const TABLE: &[DiePoint] = table! {
    10 "arrival_payload" "the payload of an arrival is copied, its line says nothing of it yet"
    11 "arrival_record" "the record of the call holds its arguments, not its number"
    12 "arrival_recorded" "the record of the call is complete"
    13 "arrival_line" "the arrival line holds everything but the call's number"
    14 "arrival_posted" "the arrival is there, and no sleeper has been woken"
    15 "arrival_rung" "the arrival is there, and the sleepers are woken"
    16 "arrival_all" "all other ranks' arrivals have been seen by a call that takes its data from their lines"
    17 "direct_done" "a call that takes its data from the arrival lines has written its output"
    18 "borrowed_read" "inputs have been read where they lie, and their ranks are not told"
    19 "borrowed_wait" "a rank has all that it needs, and its input may still be read where it lies"
    20 "step_operands" "a step's operands are there, and its result is stored nowhere"
    21 "step_combined" "a step's result is in slots and outputs, and the program counter does not say so"
    22 "progress_posted" "the program counter is stored, and no sleeper has been woken"
    23 "progress_rung" "the program counter is stored, and the sleepers are woken"
    24 "progress_drain" "the program is over, and peers may still read this rank's buffers"
    25 "progress_done" "the program counter says that the call is over"
    30 "disagreement_seen" "a disagreement has been seen, and nobody has been told"
    31 "disagreement_told" "the header tells of a disagreement, and no sleeper has been woken"
    32 "disagreement_found" "a disagreement in an earlier call has been found, and the header does not tell of it"
    33 "disagreement_noted" "the header tells of a disagreement in an earlier call"
    40 "fail_cause" "the header tells because of whom this rank gives up"
    41 "fail_call" "the life line tells the call in which this rank gives up, and not yet that it does"
    42 "fail_state" "the life line tells that this rank has given up, and the count of such ranks does not"
    43 "fail_counted" "this rank counts as one that has given up, and no sleeper has been woken"
    44 "death_noted" "another rank's death has been written down for all"
    50 "abort_begun" "an abort has begun, and the header does not tell of it"
    51 "abort_told" "the header tells of an abort, and no sleeper has been woken"
    52 "abort_rung" "the header tells of an abort, and the sleepers are woken"
    60 "leave_begun" "a communicator has no handle any more, and its life line says that it is in use"
    61 "leave_told" "the life line says that this rank has left, and no sleeper has been woken"
    62 "leave_rung" "the life line says that this rank has left, and the sleepers are woken"
    63 "keeper_unlinked" "the keeper's list does not hold a life word any more, and the word still names the keeper"
    70 "pair_copied" "a slot's data is copied, and its line is as it was"
    71 "pair_line" "a slot's line holds everything but the slot's index"
    72 "pair_full" "a slot is full, and no sleeper has been woken"
    73 "pair_read" "a slot, or a buffer in the sender's heap, has been read, and the sender does not know"
    74 "pair_taken" "the sender is told how many slots have been taken, and no sleeper has been woken"
    75 "pair_refusal" "the arguments of a receiver that refuses a message are stored, and not which message it is"
    76 "pair_refused" "a refused message is named, and the count of refusals has not changed"
    77 "pair_refusals" "the count of refusals has changed, and the refused slots are not taken"
    80 "join_prepared" "a rank has its memory, and nobody has heard of it"
    81 "join_met" "all ranks know each other's memory, and this one's life is kept by nobody"
    82 "keeper_word" "a life word names the keeper, and the keeper's list does not hold it"
    83 "keeper_linked" "the keeper's list holds a life word"
    84 "join_kept" "the kernel watches over this rank, and its life line is empty"
    85 "attach_pid" "the life line holds the PID"
    86 "attach_start" "the life line holds PID and start time"
    87 "attach_state" "the life line says that the rank is alive, and it does not count as attached"
    88 "attach_counted" "the rank counts as attached, and no sleeper has been woken"
    89 "attach_all" "all ranks are attached"
    90 "join_placed" "the rank has its place on the declared machine, or needs none"
    91 "join_over" "the server has been told that the rank has joined"
    100 "mail_claimed" "a slot of a mailbox is claimed"
    101 "mail_filled" "a claimed slot holds the message"
    102 "mail_locked" "the lock of a mailbox is held, and no queue has changed"
    103 "mail_entry" "an entry is in a queue, and the queue's tail is as it was"
    104 "mail_tail" "a queue's tail has moved, and the message is not committed"
    105 "mail_committed" "the message is committed, and the count of messages is as it was"
    106 "mail_counted" "all counts are new, and the lock is still held"
    107 "mail_unlocked" "the lock is free again, and no sleeper has been woken"
    108 "mail_waits" "a full mailbox knows of a thread that waits for a slot"
    109 "mail_received" "a message has been taken from a queue"
    110 "mail_released" "the last receiver is done with a message, and its slot is not free"
    111 "mail_link" "the slot links to the first free one, and is not the first itself"
    112 "mail_freed" "the slot is free, and no sender has been woken"
    120 "signal_data" "the data of a put with signal is in the window, and the signal is not given"
    121 "signal_given" "the signal is given, and its rank has not been woken"
    122 "signal_rung" "the signal is given, and its rank has been woken"
    123 "signal_came" "signals have come, and are not taken"
    130 "semaphore_by" "a semaphore's account of this rank has grown"
    131 "semaphore_last" "a semaphore names this rank as the last to signal, and its value is as it was"
    132 "semaphore_added" "a semaphore's value has grown, and its rank has not been woken"
    133 "semaphore_taken" "a wait has taken its value off a semaphore"
    140 "put_stored" "the bytes of a put are stored, and nobody has been woken"
    141 "put_data" "the bytes of a put with signal are stored, and its signal is not"
    142 "put_signalled" "the signal of a put is stored, and nobody has been woken"
    143 "atomic_done" "an atomic operation is done, and nobody has been woken"
    144 "wait_over" "a wait for a word of the symmetric heap is over"
    150 "symmetric_agreed" "all ranks have asked for the same of the symmetric heap"
    151 "symmetric_backed" "an allocation has its pages, and the others have not been told"
    152 "symmetric_made" "all ranks have an allocation"
    153 "symmetric_range" "a rank has memory for a new segment, and nobody has been told"
    154 "symmetric_grown" "all ranks have a new segment"
    160 "registered_twin" "a registered buffer has memory in the heap, and its pages are its own"
    161 "registered_moved" "a registered buffer's pages are the heap's"
    162 "registered_filled" "the edges of a registered buffer are copied for a call"
    163 "registered_back" "a registered buffer has its own pages again"
    170 "clock_posts" "the posts of a call on a declared machine are written, and their ticket is not"
    171 "clock_ticket" "a ticket says everything but that it is posted"
    172 "clock_posted" "a ticket is posted, and its thread counts as running"
    173 "clock_rested" "no thread runs any more, and nobody has asked for the engine"
    174 "clock_wanted" "the engine is asked for, and nobody runs it"
    175 "engine_begun" "this rank runs the engine, and has changed nothing"
    176 "engine_staged" "the engine has taken a post, and the log does not hold its call"
    177 "engine_logged" "the log holds a call that is under way"
    178 "engine_done" "a post is done, and its ticket does not count it"
    179 "engine_counted" "a ticket counts all its posts as done, and its rank's clock is as it was"
    180 "engine_running" "a served thread counts as running, and its ticket is not served"
    181 "engine_served" "a ticket is served"
    182 "engine_over" "the engine has run, and no sleeper has been woken"
    183 "engine_released" "nobody runs the engine, and it was not asked whether another run is wanted"
    184 "clock_freed" "a served ticket is free again"
    185 "halt_writing" "a rank writes why no call can end any more"
    186 "halt_written" "the sentence is there, and the header does not say how long it is"
    187 "put_woken" "threads that wait for a store count as running, and are not woken"
    190 "race_drawn" "a number is drawn for the ledger of races, and the ledger does not say whose it is"
    191 "race_held" "the lock of the ledger of races is held"
    192 "race_turn" "the lock's turn has moved on, and the next in line has not been told"
    193 "race_handed" "the next in line has the lock, and no sleeper has been woken"
};

#[cfg(feature = "die-points")]
pub use armed::pass;

#[cfg(feature = "die-points")]
mod armed {
    use crate::sync::lock::Mutex;
    use crate::sys::process;
    use std::sync::OnceLock;

    /// Returns the point at which this process must die, and the passages that are left until then.
    fn order() -> Option<&'static (String, Mutex<u64>)> {
        static ORDER: OnceLock<Option<(String, Mutex<u64>)>> = OnceLock::new();
        let read = || {
            let text = crate::env::get("PENNY_DIE_AT")?;
            let (name, passages) = text.split_once(':').unwrap_or((&text, "1"));
            let known = super::TABLE.iter().any(|point| point.name == name);
            assert!(known, "PENNY_DIE_AT is `{text}`; there is no such point");
            Some((name.to_owned(), Mutex::new(passages.parse().expect("a number of passages"))))
        };
        ORDER.get_or_init(read).as_ref()
    }

    /// Ends this process by SIGKILL if it is to die here.
    pub fn pass(number: u32, name: &str) {
        let Some((at, left)) = order() else { return };
        if at != name {
            return;
        }
        let mut left = left.lock();
        *left = left.saturating_sub(1);
        if *left == 0 {
            let point = super::TABLE.iter().find(|point| point.number == number);
            eprintln!("dies at {number} {name}: {}", point.map_or("", |point| point.after));
            process::kill_self();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TABLE;

    /// Every point that the library's sources mark, as (number, name, file).
    fn marked() -> Vec<(u32, String, String)> {
        fn visit(folder: &std::path::Path, found: &mut Vec<(u32, String, String)>) {
            for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    visit(&path, found);
                } else if !path.ends_with("die_points.rs") {
                    let text = std::fs::read_to_string(&path).expect("a source");
                    for point in text.split("die_point!(").skip(1) {
                        let (inside, _) = point.split_once(')').expect("closed");
                        let (number, name) = inside.split_once(' ').expect("a number and a name");
                        let number = number.parse().expect("a number");
                        found.push((number, name.trim_matches('"').to_owned(), path.display().to_string()));
                    }
                }
            }
        }
        let mut found = Vec::new();
        visit(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        found
    }

    #[test]
    fn the_table_lists_every_marked_point_and_no_other() {
        let marked = marked();
        for (number, name, file) in &marked {
            let listed = TABLE.iter().any(|point| point.number == *number && point.name == name);
            assert!(listed, "{file} marks {number} `{name}`, which the table does not list");
        }
        for point in TABLE {
            let there = marked.iter().any(|(number, _, _)| *number == point.number);
            assert!(there, "nothing marks {} `{}`: {}", point.number, point.name, point.after);
        }
        assert!(TABLE.windows(2).all(|pair| pair[0].number < pair[1].number), "the numbers rise");
    }
}
