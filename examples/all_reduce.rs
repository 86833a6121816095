//! Sums a vector over the processes of a launch.
//!
//!     cargo build --release --example all_reduce
//!     cargo run --release -p penny-cli -- run -n 2 target/release/examples/all_reduce
//!
//! prints `2 ranks: 1 3 5`.

#![forbid(unsafe_code)]

use penny::{Communicator, Op};

fn main() -> Result<(), penny::Error> {
    let comm = Communicator::from_env()?; // rank and size come from the launcher
    let mine = [0, 1, 2].map(|i| (comm.rank() + i) as f32);
    let mut sum = [0.0; 3];
    comm.all_reduce(&mine, &mut sum, Op::Sum)?;
    if comm.rank() == 0 {
        println!("{} ranks: {} {} {}", comm.size(), sum[0], sum[1], sum[2]);
    }
    comm.destroy()
}
