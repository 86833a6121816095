//! One case: timed, then checked, out of place or in place.

use std::ops::Range;
use std::time::{Duration, Instant};

use penny::internals::types::{DataType, RedOp};

use crate::batch_size::{BatchSize, Next};
use crate::buffer::Buffer;
use crate::capi::{Call, Communicator, Registration};
use crate::host::{self, Host};
use crate::inputs::Inputs;
use crate::layout::{self, Layout, Source};
use crate::machine::{self, Machine, MachineTime};
use crate::options::{Buffers, Options};
use crate::pattern::Pattern;
use crate::report::Measurement;
use crate::subject::Subject;

/// Searches for the size of a batch that are begun, if the sizes found turn out too small.
const SEARCHES: u32 = 4;

/// The call that is measured.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Bytes, as the table shows them.
    pub bytes: usize,
    /// Element type.
    pub dtype: DataType,
    /// Reduction, if the subject reduces.
    pub op: Option<RedOp>,
    /// Root, if the subject has one.
    pub root: Option<u32>,
}

/// Where the input lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a buffer of its own.
    Out,
    /// In the output's buffer, where NCCL wants it.
    In,
}

/// One rank's part in the measurements of a subject.
pub struct Bench<'a> {
    comm: &'a Communicator,
    options: &'a Options,
    subject: Subject,
    /// The registrations of both buffers, if they are registered. Dropped before the buffers.
    _registrations: Vec<Registration<'a>>,
    send: Buffer,
    recv: Buffer,
    machine: Option<Machine>,
    /// Bytes of a buffer.
    max_bytes: usize,
    /// Calls so far that took the next part of the buffers; of the case, if the options say how many it has.
    walked: usize,
    /// The calls that walk through the buffers have been warmed up.
    is_warm: bool,
}

/// One case in one place: the ranges of both buffers.
struct Setting {
    case: Case,
    layout: Layout,
    place: Place,
    input: Range<usize>,
    output: Range<usize>,
}

impl Setting {
    /// Returns the part of the receive buffer that the call may read or write.
    fn span(&self) -> Range<usize> {
        match self.place {
            Place::Out => self.output.clone(),
            Place::In => self.input.start.min(self.output.start)..self.input.end.max(self.output.end),
        }
    }
    /// Returns the input before and after the output, which the call must not change.
    fn lasting_input(&self) -> [Range<usize>; 2] {
        let (input, output) = (self.input.clone(), self.output.clone());
        let overlap = self.place == Place::In && output.start < input.end && input.start < output.end;
        match overlap {
            true => [input.start..output.start.max(input.start), output.end.min(input.end)..input.end],
            false => [input.clone(), input.end..input.end],
        }
    }
}

/// Returns where the part of this number begins in a buffer, whose end is followed by its beginning.
fn part(number: usize, bytes: usize, of_buffer: usize) -> usize {
    number % (of_buffer / bytes).max(1) * bytes
}

impl<'a> Bench<'a> {
    /// Buffers for cases of up to `max_bytes`.
    pub fn new(
        comm: &'a Communicator,
        options: &'a Options,
        subject: Subject,
        kind: Buffers,
        max_bytes: usize,
    ) -> Result<Bench<'a>, String> {
        let (send, recv) = (Buffer::new(kind, max_bytes)?, Buffer::new(kind, max_bytes)?);
        let mut registrations = Vec::new();
        if kind == Buffers::Registered {
            for buffer in [&send, &recv] {
                // SAFETY: the buffer has that many bytes, and outlives its registration.
                registrations.push(unsafe { comm.register(buffer.address(0), max_bytes) }?);
            }
        }
        let machine = comm.machine()?;
        let (walked, is_warm) = (0, false);
        Ok(Bench {
            comm,
            options,
            subject,
            _registrations: registrations,
            send,
            recv,
            machine,
            max_bytes,
            walked,
            is_warm,
        })
    }

    /// Times a case and, if the options say so, checks it. All ranks return the same numbers.
    pub fn measure(&mut self, case: &Case, place: Place) -> Result<Measurement, String> {
        let setting = self.setting(case, place);
        let inputs = |seed| Inputs { dtype: case.dtype, op: case.op, nranks: self.comm.nranks(), seed };
        let (seconds, machine) = self.seconds(&setting, &inputs(0).of_rank(self.comm.rank()))?;
        let wrong = match self.options.check {
            0 => None,
            checks => {
                let mut wrong = 0;
                for seed in 1..=u64::from(checks) {
                    wrong += self.check(&setting, &inputs(seed))?;
                }
                Some(self.comm.gather(wrong as f64)?.iter().sum::<f64>() as u64)
            }
        };
        let bytes = self.shown_bytes(case);
        let measured = Measurement::new(seconds, bytes, self.subject.bus_factor(self.comm.nranks()), wrong);
        Ok(Measurement { machine, ..measured })
    }

    /// Returns the seconds of a call, by the wall clock or on the declared machine.
    fn seconds(&mut self, setting: &Setting, input: &Pattern) -> Result<(f64, Option<MachineTime>), String> {
        if let Some(machine) = self.machine.clone() {
            self.write_input(setting, 0, input);
            // SAFETY: the buffers hold the largest case.
            let time = unsafe { machine::time(self.comm, &machine, self.options, &self.call(setting, 0)) }?;
            return Ok((time.time_ps as f64 * 1e-12, Some(time)));
        }
        let mean = self.time(setting, input)?;
        let times = self.comm.gather(mean.as_secs_f64())?;
        let seconds = match self.options.average {
            0 => times[0],
            1 => times.iter().sum::<f64>() / times.len() as f64,
            2 => times.iter().copied().fold(f64::INFINITY, f64::min),
            _ => times.iter().copied().fold(0.0, f64::max),
        };
        Ok((seconds, None))
    }

    /// Elements of one block.
    pub fn count(&self, case: &Case) -> usize {
        layout::count(self.subject, self.comm.nranks(), case.bytes, case.dtype.size())
    }

    /// The size that the table shows.
    pub fn shown_bytes(&self, case: &Case) -> usize {
        layout::shown_bytes(self.subject, self.comm.nranks(), self.count(case), case.dtype.size())
    }

    fn setting(&self, case: &Case, place: Place) -> Setting {
        let (nranks, rank) = (self.comm.nranks(), self.comm.rank());
        let layout = Layout::new(self.subject, nranks, rank, case.root.unwrap_or(0), self.count(case));
        let block = layout.count * case.dtype.size();
        let (in_at, out_at) = match place {
            Place::Out => (0, 0),
            Place::In => (layout.in_at * block, layout.out_at * block),
        };
        Setting {
            case: *case,
            layout,
            place,
            input: in_at..in_at + layout.blocks_in * block,
            output: out_at..out_at + layout.blocks_out * block,
        }
    }

    /// Returns where the part of the buffers begins that the next timed call takes, the same on all ranks.
    fn next_part(&mut self, setting: &Setting) -> usize {
        let bytes = self.shown_bytes(&setting.case);
        if !self.options.walk || bytes == 0 {
            return 0;
        }
        self.walked += 1;
        part(self.walked - 1, bytes, self.max_bytes)
    }

    /// Makes the call in the part of the buffers that begins at `from`.
    fn call(&self, setting: &Setting, from: usize) -> Call {
        let input = if setting.place == Place::In { &self.recv } else { &self.send };
        Call {
            subject: self.subject,
            send: input.address(from + setting.input.start),
            recv: self.recv.address(from + setting.output.start),
            count: setting.layout.count,
            dtype: setting.case.dtype,
            op: setting.case.op.unwrap_or(RedOp::Sum),
            root: setting.case.root.unwrap_or(0),
        }
    }

    fn write_input(&mut self, setting: &Setting, from: usize, input: &Pattern) {
        let buffer = if setting.place == Place::In { &mut self.recv } else { &mut self.send };
        input.fill(buffer.bytes_mut(from + setting.input.start..from + setting.input.end), 0);
    }

    /// This rank's time of one call: the mean of as many calls as the options say, else the lower quartile of batches.
    fn time(&mut self, setting: &Setting, input: &Pattern) -> Result<Duration, String> {
        self.write_input(setting, 0, input);
        let mut warmup_iters = self.options.warmup_iters;
        if self.options.walk && self.options.iters.is_some() {
            self.warm_up_walk(setting, input)?;
            warmup_iters = 1;
        }
        for _ in 0..warmup_iters {
            // SAFETY: the buffers hold the largest case.
            unsafe { self.comm.call(&self.call(setting, 0)) }?;
        }
        if let Some(iters) = self.options.iters {
            self.walked = 0;
            return Ok(self.batch(setting, input, iters)? / iters);
        }
        // The calls that are made to find a batch's size warm up what is measured.
        let mut size = BatchSize::new(Host::now().cores >= self.comm.nranks() as usize);
        let mut search = 1;
        loop {
            let (calls, batches) = self.batches(&mut size, setting, input)?;
            let mut times = Vec::with_capacity(batches as usize);
            for _ in 0..batches {
                times.push(self.batch(setting, input, calls)? / calls);
            }
            times.sort_unstable();
            let quartile = times[times.len() / 4];
            let slowest = self.slowest((quartile * calls).as_secs_f64())?;
            if search == SEARCHES || !size.was_too_small(slowest) {
                return Ok(quartile);
            }
            search += 1;
        }
    }

    /// Warms up once as nccl-tests does: with the warm-up calls of the first case's size and of each doubled one, which also get the buffers
    /// their pages. Only one more call comes before each case.
    fn warm_up_walk(&mut self, first: &Setting, input: &Pattern) -> Result<(), String> {
        if std::mem::replace(&mut self.is_warm, true) {
            return Ok(());
        }
        let mut case = first.case;
        while (1..=self.max_bytes).contains(&case.bytes) {
            self.walked = 0;
            self.batch(&self.setting(&case, Place::Out), input, self.options.warmup_iters)?;
            case.bytes *= 2;
        }
        Ok(())
    }

    /// Returns how many calls a batch has and how many batches there are, the same on all ranks.
    fn batches(
        &mut self,
        size: &mut BatchSize,
        setting: &Setting,
        input: &Pattern,
    ) -> Result<(u32, u32), String> {
        let mut calls = size.calls();
        loop {
            let before = host::lost_cores();
            let mine = self.batch(setting, input, calls)?.as_secs_f64();
            let lost = host::lost_cores() - before;
            let (slowest, lost) = (self.slowest(mine)?, self.slowest(lost as f64)?);
            calls = match size.take_in(slowest, lost > 0.0) {
                Next::Measure { calls, batches } => return Ok((calls, batches)),
                Next::Batch(calls) => calls,
                Next::Rest(time, calls) => {
                    std::thread::sleep(time);
                    calls
                }
            };
        }
    }

    /// Returns the largest of all ranks' numbers.
    fn slowest(&self, mine: f64) -> Result<f64, String> {
        Ok(self.comm.gather(mine)?.into_iter().fold(0.0, f64::max))
    }

    /// Makes calls one after the other, which all ranks begin together, and returns how long they took.
    fn batch(&mut self, setting: &Setting, input: &Pattern, calls: u32) -> Result<Duration, String> {
        if self.options.blocking == 0 && !self.options.dirty {
            let mut call = self.call(setting, 0);
            self.comm.barrier()?;
            let start = Instant::now();
            for _ in 0..calls {
                if self.options.walk {
                    let from = self.next_part(setting);
                    call = self.call(setting, from);
                }
                // SAFETY: the buffers hold the largest case.
                unsafe { self.comm.call(&call) }?;
            }
            return Ok(start.elapsed());
        }
        let mut total = Duration::ZERO;
        for _ in 0..calls {
            let from = self.next_part(setting);
            if self.options.dirty {
                self.write_input(setting, from, input);
            }
            let call = self.call(setting, from);
            self.comm.barrier()?;
            let start = Instant::now();
            // SAFETY: as above.
            unsafe { self.comm.call(&call) }?;
            total += start.elapsed();
        }
        Ok(total)
    }

    /// Makes the call once with `inputs`, and returns how many elements of this rank are wrong.
    fn check(&mut self, setting: &Setting, inputs: &Inputs) -> Result<u64, String> {
        if self.subject.is_barrier() {
            self.comm.barrier()?;
            return Ok(0);
        }
        let (nranks, rank, root) = (self.comm.nranks(), self.comm.rank(), setting.case.root.unwrap_or(0));
        let mine = inputs.of_rank(rank);
        self.recv.forget(setting.span());
        self.write_input(setting, 0, &mine);
        // SAFETY: the buffers hold the largest case.
        unsafe { self.comm.call(&self.call(setting, 0)) }?;

        let mut wrong = self.recv.trespasses(setting.span());
        let block = setting.layout.count * setting.case.dtype.size();
        let mut at = setting.output.start;
        for expected in setting.layout.expected(self.subject, nranks, rank, root) {
            let pattern = match expected.source {
                Source::Reduction => inputs.reduced(),
                Source::Rank(r) => inputs.of_rank(r),
            };
            wrong += pattern.mismatches(self.recv.bytes(at..at + block), expected.start);
            at += block;
        }
        let buffer = if setting.place == Place::In { &self.recv } else { &self.send };
        for range in setting.lasting_input() {
            let start = (range.start - setting.input.start) / setting.case.dtype.size();
            wrong += mine.mismatches(buffer.bytes(range), start);
        }
        Ok(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_lie_in_the_buffer() {
        let begins = |bytes, of_buffer| [0, 1, 2, 3, 4].map(|number| part(number, bytes, of_buffer));
        assert_eq!(begins(8, 32), [0, 8, 16, 24, 0]);
        assert_eq!(begins(12, 32), [0, 12, 0, 12, 0]);
        assert_eq!(begins(32, 32), [0; 5]);
    }
}
