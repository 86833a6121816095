use super::by_function;
use super::*;
use crate::error::Code;
use crate::sys::callback;
use crate::sys::parallel_function::{Function, LoopBody};
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

const PIECES: u32 = 5;

/// How often each piece has run, by the threads of `run`.
fn times(run: impl FnOnce(LentBody<'_>)) -> Vec<u32> {
    let times: Vec<AtomicU32> = (0..PIECES).map(|_| AtomicU32::new(0)).collect();
    run(&|piece| {
        times[piece as usize].fetch_add(1, Ordering::Relaxed);
    });
    times.into_iter().map(AtomicU32::into_inner).collect()
}

fn by(function: Function, argument: *mut c_void) -> ParallelFor {
    // SAFETY: the functions of these tests take what they are given here.
    ParallelFor::new(3, 4, Some(unsafe { ParallelFunction::new(function, argument) }))
}

/// The addresses of a call's body, for threads.
#[derive(Clone, Copy)]
struct Call(LoopBody, *mut c_void);
// SAFETY: the body may be called on any thread.
unsafe impl Send for Call {}
// SAFETY: as above.
unsafe impl Sync for Call {}

impl Call {
    fn run(self, index: c_int) {
        // SAFETY: the body of a loop may be called with any index at any time.
        unsafe { (self.0)(self.1, index) }
    }
}

/// Runs each index in a thread of its own.
unsafe extern "C-unwind" fn threads(_: *mut c_void, n: c_int, body: Option<LoopBody>, of: *mut c_void) {
    let call = Call(body.unwrap(), of);
    thread::scope(|scope| (0..n).for_each(|index| drop(scope.spawn(move || call.run(index)))));
}

/// Runs the indices of the list in its argument.
unsafe extern "C-unwind" fn listed(list: *mut c_void, _: c_int, body: Option<LoopBody>, of: *mut c_void) {
    // SAFETY: the tests below pass such a list.
    let list = unsafe { &*list.cast::<Vec<c_int>>() };
    list.iter().for_each(|&index| Call(body.unwrap(), of).run(index));
}

#[test]
fn helpers_run_each_piece_once_in_one_loop_after_another() {
    let helpers = ParallelFor::with_helpers(3);
    for _ in 0..2000 {
        assert_eq!(times(|piece| helpers.run(PIECES, piece).unwrap()), [1; PIECES as usize]);
    }
    helpers.end();
    assert_eq!(times(|piece| helpers.run(PIECES, piece).unwrap()), [1; PIECES as usize]);
}

#[test]
fn helpers_take_pieces_while_the_caller_is_at_one() {
    let helpers = ParallelFor::with_helpers(3);
    let (caller, elsewhere) = (thread::current().id(), AtomicU32::new(0));
    helpers
        .run(2, &|_| {
            if thread::current().id() != caller {
                elsewhere.fetch_add(1, Ordering::Relaxed);
                return;
            }
            // BOUND: a helper takes the other piece.
            while elsewhere.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
        })
        .unwrap();
    assert_eq!(elsewhere.into_inner(), 1);
}

#[test]
fn loops_of_several_threads_share_the_helpers() {
    let helpers = ParallelFor::with_helpers(2);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..500 {
                    assert_eq!(times(|piece| helpers.run(PIECES, piece).unwrap()), [1; PIECES as usize]);
                }
            });
        }
    });
}

#[test]
fn the_programs_function_runs_the_pieces_if_there_is_one() {
    let theirs = by(threads, std::ptr::null_mut());
    assert!(theirs.runner().starts_with("parallelFor"));
    assert_eq!((theirs.pieces(1 << 30), theirs.pieces(0), theirs.pieces(3 * LEAST_PIECE)), (4, 1, 3));
    for _ in 0..100 {
        assert_eq!(times(|piece| theirs.run(PIECES, piece).unwrap()), [1; PIECES as usize]);
    }
}

#[test]
fn a_function_that_does_not_run_each_index_once_is_told_so() {
    let faulty: [(&[c_int], &str); 5] = [
        (&[4, 0, 1, 3], "had called body for 4 of 5 indices; index 2 is missing"),
        (&[], "had called body for 0 of 5 indices; index 0 is missing"),
        (&[0, 1, 2, 3, 3, 4], "called body 2 times with i = 3"),
        (&[0, 1, 2, 3, 4, 5], "called body with i = 5, but n is 5"),
        (&[0, 1, -1, 2, 3, 4], "called body with i = -1, but n is 5"),
    ];
    for (list, said) in faulty {
        let mut list = list.to_vec();
        let theirs = by(listed, (&raw mut list).cast());
        let mut told = Ok(());
        let ran = times(|piece| told = theirs.run(PIECES, piece));
        assert!(ran.iter().all(|&times| times <= 1), "{list:?} ran {ran:?}");
        let told = told.unwrap_err();
        let message = &told.message;
        assert!(told.code == Code::InvalidUsage && message.starts_with("parallelFor of rank 3"), "{message}");
        assert!(message.contains(said), "{message}");
        assert!(theirs.has_failed());
    }
}

/// Returns before a thread that it has started calls the body.
unsafe extern "C-unwind" fn late(argument: *mut c_void, n: c_int, body: Option<LoopBody>, of: *mut c_void) {
    // SAFETY: the test below passes such a pair.
    let (go, over) = unsafe { &*argument.cast::<(Mutex<Option<Receiver<()>>>, Sender<()>)>() };
    let (call, go, over) = (Call(body.unwrap(), of), go.lock().unwrap().take().unwrap(), over.clone());
    (1..n).for_each(|index| call.run(index));
    thread::spawn(move || {
        go.recv().unwrap();
        call.run(0);
        over.send(()).unwrap();
    });
}

#[test]
fn a_body_that_is_called_after_the_function_has_returned_does_nothing() {
    let ((tell, go), (over, is_over)) = (channel(), channel::<()>());
    let mut argument = (Mutex::new(Some(go)), over);
    let theirs = by(late, (&raw mut argument).cast());
    let mut told = Ok(());
    let ran = times(|piece| told = theirs.run(PIECES, piece));
    assert_eq!(ran, [0, 1, 1, 1, 1]);
    assert!(told.unwrap_err().message.contains("4 of 5 indices; index 0 is missing"));
    // What the pieces would write to is gone by now.
    tell.send(()).unwrap();
    is_over.recv().unwrap();
}

/// Asks for the number of a communicator's ranks, as a program would.
unsafe extern "C-unwind" fn asks(said: *mut c_void, n: c_int, body: Option<LoopBody>, of: *mut c_void) {
    let refusal = callback::refuse_inside().map_err(|e| e.message.clone());
    // SAFETY: the test below passes such a place.
    unsafe { *said.cast::<Option<String>>() = refusal.err() };
    (0..n).for_each(|index| Call(body.unwrap(), of).run(index));
}

#[test]
fn a_function_that_calls_penny_is_refused_and_the_loop_is_complete() {
    let mut said: Option<String> = None;
    let theirs = by(asks, (&raw mut said).cast());
    assert_eq!(times(|piece| theirs.run(PIECES, piece).unwrap()), [1; PIECES as usize]);
    assert!(said.unwrap().starts_with("parallelFor (pennyConfig_t) may not call Penny"));
    callback::refuse_inside().unwrap();
}

#[test]
fn no_number_of_a_loop_that_is_over_is_used_again() {
    let numbers = Mutex::new(Vec::<usize>::new());
    /// Notes the body's argument.
    unsafe extern "C-unwind" fn notes(list: *mut c_void, n: c_int, body: Option<LoopBody>, of: *mut c_void) {
        // SAFETY: the test passes such a list.
        unsafe { &*list.cast::<Mutex<Vec<usize>>>() }.lock().unwrap().push(of.addr());
        (0..n).for_each(|index| Call(body.unwrap(), of).run(index));
    }
    // SAFETY: `notes` takes such a list.
    let function = unsafe { ParallelFunction::new(notes, (&raw const numbers).cast_mut().cast()) };
    for _ in 0..3 {
        by_function::run(&function, 0, PIECES, &|_| {}).unwrap();
    }
    let numbers = numbers.into_inner().unwrap();
    assert!(numbers.windows(2).all(|two| two[0] < two[1]) && numbers[0] > 0, "{numbers:?}");
}
