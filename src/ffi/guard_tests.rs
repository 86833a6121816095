//! Refusals, panics and the last error, through functions that the macro defines for these tests only.

use super::*;
use crate::error::Code;
use crate::ffi::handle::{pennyComm_t, pennyStream_t, to_c};
use crate::ffi::types::{
    pennyDataType_t, pennyInternalError, pennyInvalidArgument, pennyInvalidUsage, pennySuccess,
};

c_api! {
    /// Says what it is told.
    fn pennyTestFail(comm: pennyComm_t, number: c_int) {
        match number {
            0 => Ok(()),
            13 => panic!("number {number}"),
            14 => std::panic::panic_any(14),
            _ => Err(Error::usage(format!("number {number} on {:?}", comm.bits()))),
        }
    }
    /// Doubles.
    fn pennyTestDouble(number: c_int, #[out] twice: *mut c_int) {
        if number < 0 {
            return Err(Error::argument("number is negative"));
        }
        twice.set(2 * number)
    }
    /// Takes one of each.
    fn pennyTestAll(
        buff: *const c_void,
        datatype: pennyDataType_t,
        #[or_null] other: pennyComm_t,
        comm: pennyComm_t,
        stream: pennyStream_t,
    ) {
        assert_eq!((buff.get(), datatype.name(), other, comm.bits()), (64, "float", None, 9));
        assert!(stream.is_none_or(|stream| stream.bits() == 8));
        Ok(())
    }
    /// Cannot speak.
    fn pennyTestText(comm: pennyComm_t) -> *const c_char {
        panic!("on {comm:?}")
    }
}

fn comm(number: u64) -> pennyComm_t {
    to_c(CommHandle::from_bits(number))
}

fn fail(on: u64, number: c_int) -> pennyResult_t {
    // SAFETY: no pointer is passed that is read or written.
    unsafe { pennyTestFail(comm(on), number) }
}

fn last(on: Option<u64>) -> &'static str {
    // SAFETY: a string that lives until the next failure; each test compares it before that.
    unsafe { CStr::from_ptr(last_error(on.map(CommHandle::from_bits))) }.to_str().unwrap()
}

#[test]
fn a_failure_is_filed_with_the_functions_name_and_a_success_leaves_it() {
    assert_eq!((last(None), last(Some(5))), ("", ""));
    assert_eq!(fail(5, 1), pennyInvalidUsage);
    assert_eq!(fail(5, 0), pennySuccess);
    assert_eq!(last(None), "pennyTestFail: number 1 on 5");
    assert_eq!(last(Some(5)), last(None));
    assert_eq!(last(Some(6)), "", "another communicator has not failed");
}

#[test]
fn last_errors_are_each_threads_own() {
    fail(5, 1);
    std::thread::spawn(|| assert_eq!(last(None), "")).join().unwrap();
}

#[test]
fn a_failure_without_a_communicator_counts_for_all() {
    fail(5, 1);
    // SAFETY: `twice` is a place for a result.
    let result = unsafe { pennyTestDouble(-1, &mut 0) };
    assert_eq!(result, pennyInvalidArgument);
    assert_eq!(last(Some(5)), "pennyTestDouble: number is negative");
    assert_eq!(last(Some(6)), last(None));
}

#[test]
fn communicators_that_are_gone_do_not_pile_up() {
    for on in 1..1000 {
        fail(on, 1);
    }
    LAST.with(|last| assert_eq!(last.borrow().older.len(), 0));
    assert_eq!(last(Some(999)), "pennyTestFail: number 1 on 999");
}

#[test]
fn a_panic_becomes_an_internal_error_with_its_words() {
    assert_eq!(fail(5, 13), pennyInternalError);
    assert_eq!(last(Some(5)), "pennyTestFail: a defect in Penny, please report it: number 13");
    assert_eq!(fail(5, 14), pennyInternalError);
    assert_eq!(last(Some(5)), "pennyTestFail: a defect in Penny, please report it: a panic without words");
    // SAFETY: the text is static.
    let text = unsafe { CStr::from_ptr(pennyTestText(comm(1))) };
    assert_eq!(text, c"a defect in Penny; please report it");
}

#[test]
fn a_panic_breaks_the_communicator_that_it_happened_on_and_no_other() {
    let ranks = [comm::init_all(1).unwrap()[0], comm::init_all(1).unwrap()[0]];
    assert_eq!(fail(ranks[0].bits(), 13), pennyInternalError);
    assert_eq!(
        ranks.map(|rank| comm::state(rank).unwrap().err().map(|e| e.code)),
        [Some(Code::InternalError), None]
    );
    for rank in ranks {
        comm::destroy(rank).unwrap();
    }
}

#[test]
fn each_live_communicator_keeps_its_own_newest_sentence() {
    let ranks = [comm::init_all(1).unwrap()[0], comm::init_all(1).unwrap()[0]];
    let [one, two] = ranks.map(|rank| rank.bits());
    fail(one, 1);
    let of_one = last(Some(one));
    fail(two, 2);
    fail(two, 3);
    assert_eq!(last(Some(one)).as_ptr(), of_one.as_ptr(), "what C holds of the first stays where it is");
    assert_eq!(last(Some(one)), format!("pennyTestFail: number 1 on {one}"));
    assert_eq!(last(Some(two)), format!("pennyTestFail: number 3 on {two}"));
    for rank in ranks {
        comm::destroy(rank).unwrap();
    }
}

#[test]
fn what_is_refused_inside_a_group_spoils_it_if_the_call_takes_a_stream() {
    let null = std::ptr::null_mut();
    // SAFETY: the buffer is never read.
    let queued = |datatype| unsafe {
        pennyTestAll(
            std::ptr::without_provenance(64),
            pennyDataType_t(datatype),
            null,
            comm(9),
            std::ptr::null_mut(),
        )
    };
    comm::group_start().unwrap();
    fail(9, 1);
    assert_eq!(comm::group_end(), Ok(()), "pennyTestFail takes no stream");
    comm::group_start().unwrap();
    assert_eq!(queued(99), pennyInvalidArgument);
    let spoilt = comm::group_end().unwrap_err();
    assert_eq!(spoilt.code, Code::InvalidArgument);
    assert!(
        spoilt.message.ends_with("pennyTestAll: datatype is 99, no pennyDataType_t"),
        "{}",
        spoilt.message
    );
}

#[test]
fn an_output_is_written_on_success_only_and_null_is_refused() {
    let mut twice = -7;
    // SAFETY: `twice` is a place for a result, or NULL.
    let result = |number, to| unsafe { pennyTestDouble(number, to) };
    assert_eq!(result(-1, &mut twice), pennyInvalidArgument);
    assert_eq!(twice, -7);
    assert_eq!(result(21, &mut twice), pennySuccess);
    assert_eq!(twice, 42);
    assert_eq!(result(21, std::ptr::null_mut()), pennyInvalidArgument);
    assert_eq!(last(None), "pennyTestDouble: twice is NULL; pass the place for the result");
}

#[test]
fn every_parameter_is_admitted_before_the_body_runs() {
    let null = std::ptr::null_mut();
    // SAFETY: the buffer is never read.
    let call = |datatype, on, stream| unsafe {
        pennyTestAll(std::ptr::without_provenance(64), pennyDataType_t(datatype), null, on, stream)
    };
    let stream = std::ptr::without_provenance_mut(8);
    assert_eq!(call(7, comm(9), std::ptr::null_mut()), pennySuccess);
    assert_eq!(call(99, comm(9), std::ptr::null_mut()), pennyInvalidArgument);
    assert_eq!(last(Some(9)), "pennyTestAll: datatype is 99, no pennyDataType_t");
    assert_eq!(call(7, null, std::ptr::null_mut()), pennyInvalidArgument);
    assert_eq!(last(None), "pennyTestAll: comm is NULL; pass a communicator");
    assert_eq!(call(7, comm(9), stream), pennySuccess);
}
