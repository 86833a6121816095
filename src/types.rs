//! The words every module shares: element types, operations, collectives, ranks.

/// A rank's number in its communicator, `0..nranks`.
pub type Rank = u32;

/// The most ranks of a communicator.
pub const MAX_RANKS: u32 = 1024;

macro_rules! c_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[repr(i32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant = $value,)* }
        impl $name {
            /// Every member, in the order of its number.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// Returns the member with this C number, if there is one.
            pub const fn from_c(value: i32) -> Option<$name> {
                match value { $($value => Some($name::$variant),)* _ => None }
            }
            /// Returns the name as command lines and tables spell it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
            /// Returns the member that `name()` spells so.
            pub fn from_name(name: &str) -> Option<$name> {
                Self::ALL.iter().copied().find(|v| v.name() == name)
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(self.name()) }
        }
    };
}

c_enum! {
    /// Element types. NCCL's numbers; Penny's own begin at 64.
    DataType {
        /// Signed 8-bit integer (also `char`).
        Int8 = 0, "int8";
        /// Unsigned 8-bit integer.
        Uint8 = 1, "uint8";
        /// Signed 32-bit integer.
        Int32 = 2, "int32";
        /// Unsigned 32-bit integer.
        Uint32 = 3, "uint32";
        /// Signed 64-bit integer.
        Int64 = 4, "int64";
        /// Unsigned 64-bit integer.
        Uint64 = 5, "uint64";
        /// IEEE binary16.
        Float16 = 6, "half";
        /// IEEE binary32.
        Float32 = 7, "float";
        /// IEEE binary64.
        Float64 = 8, "double";
        /// The upper half of binary32.
        Bfloat16 = 9, "bfloat16";
        /// OCP FP8 E4M3 (finite only, one NaN).
        Float8e4m3 = 10, "fp8_e4m3";
        /// OCP FP8 E5M2 (IEEE-like, with infinities).
        Float8e5m2 = 11, "fp8_e5m2";
        /// One byte, zero or not.
        Bool = 64, "bool";
        /// Signed 16-bit integer.
        Int16 = 65, "int16";
        /// Unsigned 16-bit integer.
        Uint16 = 66, "uint16";
    }
}

impl DataType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DataType::Int8
            | DataType::Uint8
            | DataType::Bool
            | DataType::Float8e4m3
            | DataType::Float8e5m2 => 1,
            DataType::Float16 | DataType::Bfloat16 | DataType::Int16 | DataType::Uint16 => 2,
            DataType::Int32 | DataType::Uint32 | DataType::Float32 => 4,
            DataType::Int64 | DataType::Uint64 | DataType::Float64 => 8,
        }
    }
    /// Floating point of any width.
    pub const fn is_float(self) -> bool {
        use DataType::*;
        matches!(self, Float16 | Float32 | Float64 | Bfloat16 | Float8e4m3 | Float8e5m2)
    }
    /// Integers of any width; `Bool` is none.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !matches!(self, DataType::Bool)
    }
}

c_enum! {
    /// Reductions. NCCL's numbers; Penny's own begin at 64.
    RedOp {
        /// x0 + x1 + ...
        Sum = 0, "sum";
        /// x0 * x1 * ...
        Prod = 1, "prod";
        /// The largest (IEEE maxNum).
        Max = 2, "max";
        /// The smallest (IEEE minNum).
        Min = 3, "min";
        /// Sum of x/nranks; integers are divided after the sum, toward zero.
        Avg = 4, "avg";
        /// x0*x0 + x1*x1 + ...
        SquareAdd = 64, "square_add";
        /// 1 where all are non-zero.
        LogicalAnd = 65, "logical_and";
        /// 1 where any is non-zero.
        LogicalOr = 66, "logical_or";
        /// 1 where an odd number is non-zero.
        LogicalXor = 67, "logical_xor";
        /// Bitwise and.
        BitAnd = 68, "bit_and";
        /// Bitwise or.
        BitOr = 69, "bit_or";
        /// Bitwise exclusive or.
        BitXor = 70, "bit_xor";
    }
}

impl RedOp {
    /// The type-operation matrix: which reductions an element type has.
    pub const fn serves(self, dtype: DataType) -> bool {
        match self {
            RedOp::Sum | RedOp::Prod | RedOp::Max | RedOp::Min | RedOp::Avg | RedOp::SquareAdd => {
                !matches!(dtype, DataType::Bool)
            }
            RedOp::LogicalAnd | RedOp::LogicalOr | RedOp::LogicalXor => !dtype.is_float(),
            RedOp::BitAnd | RedOp::BitOr | RedOp::BitXor => dtype.is_integer(),
        }
    }
}

c_enum! {
    /// The collectives. The names are those of the `*_perf` programs.
    Collective {
        /// Every rank gets the reduction of all ranks' buffers.
        AllReduce = 0, "all_reduce";
        /// The root gets the reduction.
        Reduce = 1, "reduce";
        /// Every rank gets the root's buffer.
        Broadcast = 2, "broadcast";
        /// Every rank gets all ranks' buffers, in rank order.
        AllGather = 3, "all_gather";
        /// Rank r gets block r of the reduction.
        ReduceScatter = 4, "reduce_scatter";
        /// Block j of rank i becomes block i of rank j.
        AlltoAll = 5, "alltoall";
        /// The root gets all ranks' buffers, in rank order.
        Gather = 6, "gather";
        /// Rank r gets block r of the root's buffer.
        Scatter = 7, "scatter";
        /// No rank leaves before all ranks have entered.
        Barrier = 8, "barrier";
    }
}

impl Collective {
    /// Combines values, hence takes an operation.
    pub const fn reduces(self) -> bool {
        matches!(self, Collective::AllReduce | Collective::Reduce | Collective::ReduceScatter)
    }
    /// Tells whether the collective has a root.
    pub const fn rooted(self) -> bool {
        matches!(self, Collective::Reduce | Collective::Broadcast | Collective::Gather | Collective::Scatter)
    }
    /// Input blocks of `count` elements that `rank` passes (0: the buffer is not read).
    pub const fn blocks_in(self, rank: Rank, nranks: u32, root: Rank) -> u32 {
        match self {
            Collective::AllReduce | Collective::Reduce | Collective::AllGather | Collective::Gather => 1,
            Collective::ReduceScatter | Collective::AlltoAll => nranks,
            Collective::Broadcast => (rank == root) as u32,
            Collective::Scatter => {
                if rank == root {
                    nranks
                } else {
                    0
                }
            }
            Collective::Barrier => 0,
        }
    }
    /// Output blocks of `count` elements that `rank` receives (0: the buffer is not written).
    pub const fn blocks_out(self, rank: Rank, nranks: u32, root: Rank) -> u32 {
        match self {
            Collective::AllReduce
            | Collective::Broadcast
            | Collective::ReduceScatter
            | Collective::Scatter => 1,
            Collective::AllGather | Collective::AlltoAll => nranks,
            Collective::Reduce => (rank == root) as u32,
            Collective::Gather => {
                if rank == root {
                    nranks
                } else {
                    0
                }
            }
            Collective::Barrier => 0,
        }
    }
}
