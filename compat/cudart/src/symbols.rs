//! Variables of a device, which are variables of the program here: a symbol is the variable's address.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;
use std::sync::Mutex;

use crate::copy::{now, row};
use crate::guard::{Result, cuda_api, fault, invalid, place};
use crate::handles::{Handle, lock};
use crate::{codes, stream};

/// The sizes of variables: those that programs built by a CUDA compiler have registered, and those that the functions of `cuda_runtime.h`
/// tell before they copy.
static SIZES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Returns the address of `count` bytes at an offset in a variable.
fn part(symbol: *const c_void, offset: usize, count: usize) -> Result<*mut c_void> {
    if symbol.is_null() {
        return fault(codes::cudaErrorInvalidSymbol, "symbol is NULL; pass a variable");
    }
    let Some(end) = offset.checked_add(count) else {
        return invalid(format!(
            "offset {offset} and count {count} go beyond the end of memory; pass a part of symbol"
        ));
    };
    if let Some(size) = lock(&SIZES).get(&symbol.addr())
        && end > *size
    {
        return invalid(format!(
            "offset {offset} and count {count} go beyond the {size} bytes of symbol; pass a part of it"
        ));
    }
    Ok(symbol.cast_mut().wrapping_byte_add(offset))
}

cuda_api! {
    /// Copies to a variable.
    fn cudaMemcpyToSymbol(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: c_int,
    ) {
        now(&row(part(symbol, offset, count)?, src, count, kind)?)
    }

    /// Copies to a variable in the stream's turn.
    fn cudaMemcpyToSymbolAsync(
        symbol: *const c_void, src: *const c_void, count: usize, offset: usize, kind: c_int, stream: Handle,
    ) {
        stream::find(stream)?.run(row(part(symbol, offset, count)?, src, count, kind)?)
    }

    /// Copies from a variable.
    fn cudaMemcpyFromSymbol(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_int,
    ) {
        now(&row(dst, part(symbol, offset, count)?, count, kind)?)
    }

    /// Copies from a variable in the stream's turn.
    fn cudaMemcpyFromSymbolAsync(
        dst: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: c_int, stream: Handle,
    ) {
        stream::find(stream)?.run(row(dst, part(symbol, offset, count)?, count, kind)?)
    }

    /// Returns the address of a variable.
    fn cudaGetSymbolAddress(devPtr: *mut *mut c_void, symbol: *const c_void) {
        let at = place(devPtr, "devPtr")?;
        at.set(part(symbol, 0, 0)?);
        Ok(())
    }

    /// Returns the size of a variable, if a CUDA compiler has registered it.
    fn cudaGetSymbolSize(size: *mut usize, symbol: *const c_void) {
        let at = place(size, "size")?;
        match lock(&SIZES).get(&symbol.addr()) {
            Some(size) => at.set(*size),
            None => return fault(
                codes::cudaErrorInvalidSymbol,
                "symbol is not registered, so its size is unknown; use sizeof",
            ),
        }
        Ok(())
    }
}

/// Notes the size of a variable.
#[unsafe(no_mangle)]
pub extern "C" fn __cudaRegisterVar(
    _image: *mut Handle,
    host: *mut c_char,
    _address: *mut c_char,
    _name: *const c_char,
    _external: c_int,
    size: usize,
    _constant: c_int,
    _global: c_int,
) {
    let _ = catch_unwind(|| lock(&SIZES).insert(host.expose_provenance(), size));
}
