//! Sums of scaled inputs: each rank multiplies its input by a number of its own, and the products are added (NCCL's
//! PreMulSum).
//!
//! ```text
//!     input --> times the rank's number, rounded to the element type --> copy --> a sum like any other
//! ```
//!
//! The buffers of the program stay as they are. The number is known to this rank alone; to the others the call is a sum.

use super::collective::{Call, Checked};
use crate::comm::calls::exchange::Exchange;
use crate::comm::communicator::CommCore;
use crate::comm::registry;
use crate::comm::shared::CommHandle;
use crate::error::{Error, Result};
use crate::kernels::{self, Dest, Fold, FoldSource};
use crate::memory::view::{Address, Payload, WithWords};
use crate::planner::Chosen;
use crate::sync::lock::Mutex;
use crate::sync::parallel_for::ParallelFor;
use crate::types::{DataType, RedOp};
use std::collections::BTreeMap;
use std::ops::Range;

/// The number that an input is multiplied by.
#[derive(Clone, Copy, Debug)]
pub enum Factor {
    /// The bits of an element, as they were when the operation was made.
    Value(u64),
    /// The place of an element, read when a call runs.
    At(Address<'static>),
}

impl Factor {
    /// Reads the number now.
    pub fn read(place: Address<'_>, dtype: DataType) -> Factor {
        Factor::Value(kernels::bits(place.view(dtype.size())))
    }
}

/// An operation that a program has made.
#[derive(Clone, Copy)]
struct Operation {
    comm: CommHandle,
    dtype: DataType,
    factor: Factor,
}

/// The operations that this process has made, by number.
static OPERATIONS: Mutex<(i32, BTreeMap<i32, Operation>)> = Mutex::new((0, BTreeMap::new()));

/// Numbers above this are of operations that programs have made, as in NCCL.
pub const FIRST: i32 = 4096;
/// The number of no operation: NCCL's largest.
pub const LAST: i32 = i32::MAX - 1;

/// Makes an operation for calls on this communicator, and returns its number.
pub fn premul_sum_create(comm: CommHandle, dtype: DataType, factor: Factor) -> Result<i32> {
    registry::shared(comm)?;
    if !RedOp::Sum.serves(dtype) {
        return Err(Error::argument(format!("there is no sum of datatype {dtype}, so it cannot be scaled")));
    }
    let (last, all) = &mut *OPERATIONS.lock();
    if *last == LAST - FIRST - 1 {
        return Err(Error::system("this process has made as many operations as there are numbers"));
    }
    *last += 1;
    all.insert(FIRST + *last, Operation { comm, dtype, factor });
    Ok(FIRST + *last)
}

/// Frees an operation. Calls that are queued with it keep what they need.
pub fn premul_sum_destroy(comm: CommHandle, number: i32) -> Result<()> {
    registry::shared(comm)?;
    find(comm, number)?;
    OPERATIONS.lock().1.remove(&number);
    Ok(())
}

/// Frees all operations of a communicator that is gone.
pub(in crate::comm) fn forget(comm: CommHandle) {
    OPERATIONS.lock().1.retain(|_, operation| operation.comm != comm);
}

fn find(comm: CommHandle, number: i32) -> Result<Operation> {
    let found = OPERATIONS.lock().1.get(&number).copied().filter(|operation| operation.comm == comm);
    found.ok_or_else(|| {
        Error::argument(format!(
            "op is {number}, which pennyRedOpCreatePreMulSum has not made for comm, or which was destroyed already"
        ))
    })
}

/// A reduction with the operation of a number.
pub fn scaled(comm: CommHandle, number: i32, call: Call<'static>) -> Result<Scaled<'static>> {
    let operation = find(comm, number)?;
    if operation.dtype != call.dtype {
        return Err(Error::argument(format!(
            "op {number} was made for datatype {}, and datatype is {}; make one for each type",
            operation.dtype, call.dtype
        )));
    }
    Ok(Scaled { call: Call { op: RedOp::Sum, ..call }, factor: operation.factor })
}

/// A sum whose input is multiplied first.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    /// The sum.
    pub call: Call<'a>,
    factor: Factor,
}

/// Bytes that are multiplied at a time.
const BLOCK: usize = 4096;

impl Scaled<'_> {
    /// Writes the products of the input to as many bytes, on several threads if there are some.
    fn multiply(
        &self,
        threads: Option<&ParallelFor>,
        input: Payload<'_>,
        products: Payload<'_>,
    ) -> Result<()> {
        let size = self.call.dtype.size();
        let value = match self.factor {
            Factor::Value(bits) => bits,
            Factor::At(place) => kernels::bits(place.view(size)),
        };
        let mut factors = [0u64; BLOCK / 8];
        let factors = Payload::from(&mut factors[..]);
        (0..BLOCK).step_by(size).for_each(|at| kernels::put_bits(factors.part(at, size), value));
        let product = Fold::new(self.call.dtype, RedOp::Prod, 1)
            .ok_or_else(|| Error::internal("a type that has a sum has no product"))?;
        let multiply = |blocks: Range<usize>| {
            for at in blocks.map(|block| block * BLOCK) {
                let bytes = BLOCK.min(input.bytes() - at);
                let sources = [input.part(at, bytes), factors.part(0, bytes)]
                    .map(|view| FoldSource { view, raw: true });
                product.fold(&sources, &[Dest::cached(products.part(at, bytes))], bytes / size, true);
            }
        };
        let blocks = input.bytes().div_ceil(BLOCK);
        let Some(threads) = threads else {
            multiply(0..blocks);
            return Ok(());
        };
        let pieces = threads.pieces(input.bytes());
        let first = |piece: u32| blocks * piece as usize / pieces as usize;
        threads.run(pieces, &|piece| multiply(first(piece)..first(piece + 1)))
    }

    /// Returns words for the products of an input; they are the communicator's.
    fn words(c: &mut CommCore, input: Payload<'_>) -> Vec<u64> {
        let mut words = std::mem::take(&mut c.products);
        let needed = input.bytes().div_ceil(8);
        if words.len() < needed {
            words.resize(needed, 0);
        }
        words
    }
}

/// The call with the products for its input.
fn with_products<'x>(checked: &Checked<'x>, products: Payload<'x>) -> Checked<'x> {
    let input = if checked.input.is_empty() { Payload::EMPTY } else { products };
    Checked { input, in_place: false, in_place_at: 0, ..*checked }
}

impl CommCore {
    /// Runs a scaled sum from check to return.
    pub(in crate::comm) fn scaled(&mut self, scaled: &Scaled<'_>) -> Result<()> {
        let Some((checked, chosen)) = self.choose(&scaled.call)? else { return Ok(()) };
        let mut words = Scaled::words(self, checked.input);
        let ended = self.run_scaled(scaled, &checked, chosen, &mut words);
        self.products = words;
        self.report_late_mismatch(ended)
    }

    fn run_scaled<'x>(
        &mut self,
        scaled: &Scaled<'_>,
        checked: &Checked<'x>,
        chosen: Chosen,
        words: &'x mut [u64],
    ) -> Result<()> {
        let products = Payload::from(words).part(0, checked.input.bytes());
        let threads = self.transport.threads_for(products.bytes());
        scaled.multiply(threads, checked.input, products).inspect_err(|e| self.break_with(e))?;
        let checked = with_products(checked, products);
        let ended = match self.timing().is_declared() {
            true => self.timed(&scaled.call, &checked, chosen),
            false => self.carry_out(&scaled.call, &checked, chosen),
        };
        // The next one like it has another input.
        self.forget_last_call();
        ended
    }
}

/// A scaled sum that is polled.
pub(in crate::comm) struct PolledScaled {
    /// `None`: it is over.
    exchange: Option<WithWords<Exchange<'static>>>,
}

impl PolledScaled {
    /// Begins a scaled sum. `None`: there is nothing to do.
    pub fn begin(c: &mut CommCore, scaled: &Scaled<'static>) -> Result<Option<PolledScaled>> {
        let Some((checked, chosen)) = c.choose(&scaled.call)? else { return Ok(None) };
        let (words, bytes) = (Scaled::words(c, checked.input), checked.input.bytes());
        let exchange = WithWords::new([words, Vec::new()], |products, _| {
            let products = products.part(0, bytes);
            let threads = c.transport.threads_for(bytes);
            scaled.multiply(threads, checked.input, products).inspect_err(|e| c.break_with(e))?;
            c.enter(&scaled.call, with_products(&checked, products), chosen, Some(0))
        });
        c.forget_last_call();
        match exchange {
            Ok(exchange) => Ok(Some(PolledScaled { exchange: Some(exchange) })),
            Err(error) => c.report_late_mismatch(Err(error)).map(|()| None),
        }
    }

    /// Goes on as far as it can without waiting.
    pub fn poll(&mut self, c: &mut CommCore) -> Result<()> {
        let over = || Error::internal("a scaled sum was asked for again");
        let ended = self.exchange.as_mut().ok_or_else(over)?.with(|exchange| c.poll_collective(exchange));
        if !ended.as_ref().is_err_and(Error::is_pending)
            && let Some(exchange) = self.exchange.take()
        {
            let [words, _] = exchange.into_words();
            c.products = words;
        }
        ended
    }
}
