//! Devices: how many there are, and which one a thread uses.
//!
//! There are `PENNY_DEVICES` devices; else 8, or as many as the launcher has started ranks on this host if these are more: rank r can use
//! device r, and a few processes can use several devices each.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::{Mutex, OnceLock};

use crate::guard::{Result, cuda_api, fault, invalid, place, set_if_wanted, set_text};
use crate::handles::lock;
use crate::operation::refuse_in_host_function;
use crate::{allocations, capture, codes, event, order, stream};

/// The version of CUDA's runtime that the headers describe.
const VERSION: c_int = 12080;
/// The least number of devices where `PENNY_DEVICES` does not set it.
const DEFAULT_COUNT: c_int = 8;
/// More devices than this have no PCI number.
const MOST: c_int = 254;
/// The variable that says how many devices there are.
const VARIABLE: &str = "PENNY_DEVICES";
/// Variables that launchers set to the number of ranks on the host.
const LAUNCHERS: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "LOCAL_WORLD_SIZE"];
/// The kinds of cudaLimit.
const KINDS_OF_LIMITS: usize = 7;
/// The flags of a device that a program may set.
const FLAGS: c_uint = 0xff;

thread_local! {
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
}
static DEVICE_FLAGS: Mutex<c_uint> = Mutex::new(0);
/// Pairs of devices of which the first has enabled access to the second.
static PEERS: Mutex<BTreeSet<(c_int, c_int)>> = Mutex::new(BTreeSet::new());
/// Limits that a program has set.
static LIMITS: Mutex<[usize; KINDS_OF_LIMITS]> = Mutex::new([1024, 1 << 20, 8 << 20, 2, 2048, 64, 0]);

/// Returns the number of devices.
pub fn count() -> Result<c_int> {
    static COUNT: OnceLock<Result<c_int>> = OnceLock::new();
    COUNT.get_or_init(read_count).clone()
}

fn read_count() -> Result<c_int> {
    if let Some(text) = std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        let text = text.to_string_lossy();
        return match text.trim().parse() {
            Ok(count) if (0..=MOST).contains(&count) => Ok(count),
            _ => fault(
                codes::cudaErrorInitializationError,
                format!("{VARIABLE} is `{text}`; it takes a number of devices from 0 to {MOST}"),
            ),
        };
    }
    let number = |name: &&str| std::env::var(name).ok()?.trim().parse::<c_int>().ok();
    Ok(LAUNCHERS.iter().find_map(number).map_or(DEFAULT_COUNT, |count| count.clamp(DEFAULT_COUNT, MOST)))
}

/// Is this the number of a device?
pub fn is_one(device: c_int) -> bool {
    count().is_ok_and(|count| (0..count).contains(&device))
}

/// Checks the number of a device.
pub fn check(device: c_int) -> Result<c_int> {
    match count()? {
        0 => fault(codes::cudaErrorNoDevice, "PENNY_DEVICES is 0; set it to the number of devices"),
        count if (0..count).contains(&device) => Ok(device),
        count => fault(
            codes::cudaErrorInvalidDevice,
            format!("device is {device}, and there are {count}; set PENNY_DEVICES for another number"),
        ),
    }
}

/// Returns the device that this thread uses.
pub fn current() -> Result<c_int> {
    check(CURRENT.get())
}

fn peers(peer: c_int) -> Result<(c_int, c_int)> {
    let current = current()?;
    if check(peer)? == current {
        return fault(
            codes::cudaErrorInvalidDevice,
            format!("peerDevice is {peer}, the device of this thread; pass another one"),
        );
    }
    Ok((current, peer))
}

fn limit(number: c_int) -> Result<usize> {
    match usize::try_from(number) {
        Ok(number) if number < KINDS_OF_LIMITS => Ok(number),
        _ => fault(codes::cudaErrorUnsupportedLimit, format!("limit is {number}; pass a cudaLimit")),
    }
}

fn synchronize() -> Result<()> {
    refuse_in_host_function()?;
    let device = current()?;
    capture::refuse_on_device(device)?;
    order::settle_device(device)
}

cuda_api! {
    /// Returns the number of devices.
    fn cudaGetDeviceCount(count: *mut c_int) {
        let at = place(count, "count")?;
        let known = self::count();
        at.set(known.clone().unwrap_or(0));
        match known? {
            0 => check(0).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the device that this thread uses.
    fn cudaGetDevice(device: *mut c_int) {
        let at = place(device, "device")?;
        at.set(current()?);
        Ok(())
    }

    /// Makes this thread use a device.
    fn cudaSetDevice(device: c_int) {
        CURRENT.set(check(device)?);
        Ok(())
    }

    /// Does nothing: a device needs no preparation.
    fn cudaInitDevice(device: c_int, _deviceFlags: c_uint, _flags: c_uint) {
        check(device).map(drop)
    }

    /// Checks the numbers; all devices stay valid.
    fn cudaSetValidDevices(devices: *mut c_int, len: c_int) {
        if devices.is_null() && len > 0 {
            return invalid("device_arr is NULL; pass as many numbers as len says");
        }
        for i in 0..len.max(0) as usize {
            // SAFETY: the program promises `len` numbers.
            check(unsafe { devices.add(i).read_unaligned() })?;
        }
        Ok(())
    }

    /// Returns a device: all are alike.
    fn cudaChooseDevice(device: *mut c_int, _prop: *const crate::properties::cudaDeviceProp) {
        let at = place(device, "device")?;
        at.set(check(0)?);
        Ok(())
    }

    /// Keeps the flags, which have no effect.
    fn cudaSetDeviceFlags(flags: c_uint) {
        if flags & !FLAGS != 0 {
            return invalid(format!("flags is {flags}; pass a sum of the flags cudaDevice..."));
        }
        *lock(&DEVICE_FLAGS) = flags;
        Ok(())
    }

    /// Returns the flags that were set, with that of mapped host memory.
    fn cudaGetDeviceFlags(flags: *mut c_uint) {
        let at = place(flags, "flags")?;
        at.set(*lock(&DEVICE_FLAGS) | 8);
        Ok(())
    }

    /// Waits for all streams of this thread's device; the first failure.
    fn cudaDeviceSynchronize() {
        synchronize()
    }

    /// Waits for all streams of this thread's device.
    fn cudaThreadSynchronize() {
        synchronize()
    }

    /// Gives back what was made on this thread's device: streams, events, memory.
    fn cudaDeviceReset() {
        refuse_in_host_function()?;
        let device = current()?;
        capture::refuse_on_device(device)?;
        // Failures end with what they happened on.
        let _ = order::settle_device(device);
        stream::destroy_all(device);
        event::destroy_all(device);
        allocations::free_all(device);
        lock(&PEERS).retain(|(from, _)| *from != device);
        Ok(())
    }

    /// Returns the version of CUDA that a driver would support.
    fn cudaDriverGetVersion(driverVersion: *mut c_int) {
        let at = place(driverVersion, "driverVersion")?;
        at.set(VERSION);
        Ok(())
    }

    /// Returns the version of CUDA's runtime whose interface this is.
    fn cudaRuntimeGetVersion(runtimeVersion: *mut c_int) {
        let at = place(runtimeVersion, "runtimeVersion")?;
        at.set(VERSION);
        Ok(())
    }

    /// Tells whether a device can reach another one: always, except itself.
    fn cudaDeviceCanAccessPeer(canAccessPeer: *mut c_int, device: c_int, peerDevice: c_int) {
        let at = place(canAccessPeer, "canAccessPeer")?;
        at.set((check(device)? != check(peerDevice)?).into());
        Ok(())
    }

    /// Notes that this thread's device may reach another one. It always can.
    fn cudaDeviceEnablePeerAccess(peerDevice: c_int, flags: c_uint) {
        let pair = peers(peerDevice)?;
        if flags != 0 {
            return invalid(format!("flags is {flags}; pass 0"));
        }
        if !lock(&PEERS).insert(pair) {
            return fault(
                codes::cudaErrorPeerAccessAlreadyEnabled,
                format!("access to peerDevice {peerDevice} is enabled already; the error may be ignored"),
            );
        }
        Ok(())
    }

    /// Takes back cudaDeviceEnablePeerAccess.
    fn cudaDeviceDisablePeerAccess(peerDevice: c_int) {
        if !lock(&PEERS).remove(&peers(peerDevice)?) {
            return fault(
                codes::cudaErrorPeerAccessNotEnabled,
                format!("access to peerDevice {peerDevice} is not enabled; enable it before"),
            );
        }
        Ok(())
    }

    /// Tells about two devices.
    fn cudaDeviceGetP2PAttribute(value: *mut c_int, attr: c_int, srcDevice: c_int, dstDevice: c_int) {
        let at = place(value, "value")?;
        if check(srcDevice)? == check(dstDevice)? {
            return fault(codes::cudaErrorInvalidDevice, "srcDevice and dstDevice are the same; pass two devices");
        }
        match attr {
            1 => at.set(0),
            2 | 3 => at.set(1),
            4 => at.set(0),
            _ => return invalid(format!("attr is {attr}; pass a cudaDeviceP2PAttr")),
        }
        Ok(())
    }

    /// Writes the device's place on a PCI bus, which no device here has: the number of the bus is that of the device, plus one.
    fn cudaDeviceGetPCIBusId(pciBusId: *mut c_char, len: c_int, device: c_int) {
        place(pciBusId, "pciBusId")?;
        let text = bus_id(check(device)?);
        if len <= text.len() as c_int {
            return invalid(format!("len is {len}; pass room for {} bytes", text.len() + 1));
        }
        set_text(pciBusId, len as usize, &text);
        Ok(())
    }

    /// Returns the device at a place on the PCI bus.
    fn cudaDeviceGetByPCIBusId(device: *mut c_int, pciBusId: *const c_char) {
        let at = place(device, "device")?;
        if pciBusId.is_null() {
            return invalid("pciBusId is NULL; pass a text of cudaDeviceGetPCIBusId");
        }
        // SAFETY: the program promises a text at an address that is not NULL.
        let text = unsafe { CStr::from_ptr(pciBusId) }.to_string_lossy().to_lowercase();
        let found = (0..count()?).find(|device| bus_id(*device).ends_with(&text) && text.len() >= 7);
        match found {
            Some(found) => at.set(found),
            None => return fault(codes::cudaErrorInvalidDevice, format!("pciBusId is {text}, where no device is")),
        }
        Ok(())
    }

    /// Returns a limit that was set, or CUDA's.
    fn cudaDeviceGetLimit(pValue: *mut usize, limit: c_int) {
        let at = place(pValue, "pValue")?;
        let number = self::limit(limit)?;
        at.set(lock(&LIMITS)[number]);
        Ok(())
    }

    /// Keeps a limit, which has no effect.
    fn cudaDeviceSetLimit(limit: c_int, value: usize) {
        let number = self::limit(limit)?;
        lock(&LIMITS)[number] = value;
        Ok(())
    }

    /// Tells that there is no preference of caches.
    fn cudaDeviceGetCacheConfig(pCacheConfig: *mut c_int) {
        set_if_wanted(pCacheConfig, 0);
        Ok(())
    }

    /// Does nothing.
    fn cudaDeviceSetCacheConfig(_cacheConfig: c_int) {
        Ok(())
    }

    /// Does nothing.
    fn cudaProfilerStart() {
        Ok(())
    }

    /// Does nothing.
    fn cudaProfilerStop() {
        Ok(())
    }
}

/// Returns the place of a device on a PCI bus.
fn bus_id(device: c_int) -> String {
    format!("0000:{:02x}:00.0", device + 1)
}
