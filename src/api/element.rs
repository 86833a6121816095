//! The types of elements, and the one place where slices of them become memory that a call may use.

use crate::memory::view::Address;
use crate::types::DataType;
use std::marker::PhantomData;

mod sealed {
    /// Keeps other crates from adding element types.
    ///
    /// # Safety
    /// The type has the size of its [`DataType`](crate::DataType), no padding, and no invalid bits unless
    /// [`IS_BOOL`](Sealed::IS_BOOL) says so.
    pub unsafe trait Sealed {
        /// True if only the bytes 0 and 1 are values.
        const IS_BOOL: bool = false;
    }
}
pub(super) use sealed::Sealed;

/// A type of which buffers may be made: the integers of 8 to 64 bits, `f32`, `f64`, `bool`, and the short floating-point
/// types of this crate.
///
/// The trait is sealed: these types are all there are.
pub trait Element: Sealed + Copy + Default + Send + Sync + 'static {
    /// The type's number in the C interface.
    const DATATYPE: DataType;
}

/// An [`Element`] of which any bits are a value: every one but `bool`.
///
/// Memory that other ranks write without a call of this rank holds only such types.
pub trait Plain: Element {}

/// A [`Plain`] type that other ranks can change atomically: `i32`, `u32`, `i64` and `u64`.
pub trait Word: Plain {
    /// Returns the bits, in the low part.
    #[doc(hidden)]
    fn to_bits(self) -> u64;
    /// The value with these bits.
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

macro_rules! elements {
    ($($ty:ty = $datatype:ident;)*) => {$(
        // SAFETY: the assertion below has seen the size; numbers have neither padding nor invalid bits.
        unsafe impl Sealed for $ty {}
        impl Element for $ty {
            const DATATYPE: DataType = {
                assert!(size_of::<$ty>() == DataType::$datatype.size());
                DataType::$datatype
            };
        }
        impl Plain for $ty {}
    )*};
}
elements! {
    i8 = Int8;
    u8 = Uint8;
    i16 = Int16;
    u16 = Uint16;
    i32 = Int32;
    u32 = Uint32;
    i64 = Int64;
    u64 = Uint64;
    f32 = Float32;
    f64 = Float64;
    F16 = Float16;
    Bf16 = Bfloat16;
    F8E4M3 = Float8e4m3;
    F8E5M2 = Float8e5m2;
}

// SAFETY: a bool is one byte; IS_BOOL tells of its invalid ones.
unsafe impl Sealed for bool {
    const IS_BOOL: bool = true;
}
impl Element for bool {
    const DATATYPE: DataType = DataType::Bool;
}

macro_rules! words {
    ($($ty:ty, $unsigned:ty;)*) => {$(
        impl Word for $ty {
            fn to_bits(self) -> u64 {
                self as $unsigned as u64
            }
            fn from_bits(bits: u64) -> $ty {
                bits as $ty
            }
        }
    )*};
}
words! { i32, u32; u32, u32; i64, u64; u64, u64; }

macro_rules! short_floats {
    ($($(#[$doc:meta])* $name:ident($bits:ty);)*) => {$(
        $(#[$doc])*
        ///
        /// It holds only the bits. The program converts them with a crate of its choice.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $bits);

        impl $name {
            /// Takes the number's bits.
            pub const fn from_bits(bits: $bits) -> $name {
                $name(bits)
            }
            /// Gives the number's bits.
            pub const fn to_bits(self) -> $bits {
                self.0
            }
        }
    )*};
}
short_floats! {
    /// IEEE binary16.
    F16(u16);
    /// bfloat16: the upper half of binary32.
    Bf16(u16);
    /// OCP FP8 E4M3: finite only, one NaN.
    F8E4M3(u8);
    /// OCP FP8 E5M2: with infinities.
    F8E5M2(u8);
}

/// Returns a slice that a call reads.
pub(super) fn input<T: Element>(slice: &[T]) -> Address<'_> {
    // SAFETY: an element has no padding (see Sealed), so all its bytes may be read; callers pass what this returns as the
    // input of a call, which is only read.
    unsafe { Address::of(std::slice::from_raw_parts(slice.as_ptr().cast(), size_of_val(slice))) }
}

/// A slice that a call writes. When it is dropped, the slice holds values of its type, whatever a peer has sent.
pub(super) struct Output<'a> {
    address: Address<'a>,
    bytes: usize,
    is_bool: bool,
    slice: PhantomData<&'a mut [u8]>,
}

/// Lends a slice to a call that writes it.
pub(super) fn output<T: Element>(slice: &mut [T]) -> Output<'_> {
    let bytes = size_of_val(slice);
    // SAFETY: an element has no padding, and any bytes may be written: they are values of the type (see Sealed), or `Output`
    // makes them so before the borrow of the slice ends.
    let raw = unsafe { std::slice::from_raw_parts_mut(slice.as_mut_ptr().cast::<u8>(), bytes) };
    Output { address: Address::of_mut(raw), bytes, is_bool: T::IS_BOOL, slice: PhantomData }
}

impl<'a> Output<'a> {
    /// The memory, for a call that is over before this is dropped.
    pub fn address(&self) -> Address<'a> {
        self.address
    }

    /// Returns the output for a call that is made later.
    ///
    /// # Safety
    /// It must be dropped before the slice's borrow ends, and after the call is over.
    pub unsafe fn outliving(self) -> Output<'static> {
        let (bytes, is_bool) = (self.bytes, self.is_bool);
        // SAFETY: the promise to `outliving`.
        let address = unsafe { self.address.outliving() };
        std::mem::forget(self);
        Output { address, bytes, is_bool, slice: PhantomData }
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if !self.is_bool {
            return;
        }
        let start: *mut u8 = std::ptr::with_exposed_provenance_mut(self.address.get());
        for i in 0..self.bytes {
            // SAFETY: the slice is still borrowed for this output alone, and `i` is within it.
            unsafe { start.add(i).write((start.add(i).read_volatile() != 0) as u8) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_bools_become_bools() {
        let mut flags = [false; 4];
        let lent = output(&mut flags);
        let start: *mut u8 = std::ptr::with_exposed_provenance_mut(lent.address().get());
        // SAFETY: within the slice, which is lent until `lent` is dropped.
        unsafe {
            start.write(2);
            start.add(2).write(255);
        }
        drop(lent);
        assert_eq!(flags, [true, false, true, false]);
    }

    #[test]
    fn fifteen_types_are_elements() {
        fn number<T: Element>() -> DataType {
            T::DATATYPE
        }
        let mut all = [
            number::<i8>(),
            number::<u8>(),
            number::<i16>(),
            number::<u16>(),
            number::<i32>(),
            number::<u32>(),
            number::<i64>(),
            number::<u64>(),
            number::<f32>(),
            number::<f64>(),
            number::<F16>(),
            number::<Bf16>(),
            number::<F8E4M3>(),
            number::<F8E5M2>(),
            number::<bool>(),
        ];
        all.sort();
        assert_eq!(all, DataType::ALL);
    }
}
