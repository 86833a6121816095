//! A configuration of any age is understood.

use super::*;

fn admit(config: &pennyConfig_t) -> Result<Config> {
    // SAFETY: the reference is readable for its own size, which no test here exceeds.
    let config = unsafe { OrNull(&raw const *config).admit("config") }?;
    config.refused.clone().map_or(Ok(config), Err)
}

const DEFAULT: Config = Config {
    blocking: true,
    timeout_ms: None,
    name: String::new(),
    algo: None,
    fabric: None,
    fabric_clock: None,
    fabric_grace: None,
    threads: None,
    parallel_for: None,
    single_copy: None,
    zero_copy_from: None,
    refused: None,
};

fn full() -> pennyConfig_t {
    pennyConfig_t { blocking: 1, timeoutMs: 1500, commName: c"left".as_ptr(), ..pennyConfig_t::INITIALIZER }
}

#[test]
fn null_and_the_untouched_initializer_mean_the_defaults() {
    // SAFETY: NULL is allowed.
    assert_eq!(unsafe { OrNull(std::ptr::null::<pennyConfig_t>()).admit("config") }, Ok(DEFAULT));
    assert_eq!(admit(&pennyConfig_t::INITIALIZER), Ok(DEFAULT));
}

#[test]
fn every_field_is_taken_and_a_newer_callers_size_and_version_do_no_harm() {
    let expected = Config { timeout_ms: Some(1500), name: "left".into(), ..DEFAULT };
    assert_eq!(admit(&full()), Ok(expected.clone()));
    let newer = (full(), [0xffu8; 64]);
    let config = pennyConfig_t { size: size_of_val(&newer), version: PENNY_VERSION_CODE + 1, ..newer.0 };
    assert_eq!(admit(&config), Ok(expected));
}

#[test]
fn a_field_that_the_callers_struct_does_not_reach_wholly_is_the_default() {
    let head = std::mem::offset_of!(pennyConfig_t, blocking);
    let name = std::mem::offset_of!(pennyConfig_t, commName);
    for size in head..size_of::<pennyConfig_t>() {
        let config = admit(&pennyConfig_t { size, ..full() }).unwrap();
        assert_eq!(config.timeout_ms, (size >= head + 8).then_some(1500), "size {size}");
        assert_eq!(config.name, if size >= name + 8 { "left" } else { "" }, "size {size}");
        assert_eq!(config.fabric_clock, None, "size {size}");
    }
}

#[test]
fn a_field_that_the_callers_version_did_not_know_is_the_default() {
    assert_eq!(admit(&pennyConfig_t { version: FIRST_VERSION - 1, ..full() }), Ok(DEFAULT));
}

#[test]
fn a_wrong_magic_or_a_size_without_a_head_is_refused() {
    for config in [
        pennyConfig_t { magic: 0, ..full() },
        pennyConfig_t { magic: !PENNY_CONFIG_MAGIC, ..full() },
        pennyConfig_t { size: 0, ..full() },
        pennyConfig_t { size: 15, ..full() },
    ] {
        let refused = admit(&config).unwrap_err();
        assert_eq!(refused.code, crate::error::Code::InvalidArgument);
        assert!(refused.message.starts_with("config is no pennyConfig_t"), "{}", refused.message);
    }
}

#[test]
fn a_field_out_of_range_is_refused_by_name() {
    let refused = admit(&pennyConfig_t { blocking: 2, ..full() }).unwrap_err();
    assert_eq!(refused, Error::argument("config->blocking is 2; it is 0 or 1"));
    let refused = admit(&pennyConfig_t { timeoutMs: -1, ..full() }).unwrap_err();
    assert_eq!(refused, Error::argument("config->timeoutMs is -1; it is 0 (never) or more"));
    for threads in [0, -1, 4097] {
        let refused = admit(&pennyConfig_t { threads, ..full() }).unwrap_err();
        assert_eq!(
            refused,
            Error::argument(format!("config->threads is {threads}; it must be from 1 to 4096"))
        );
    }
}

#[test]
fn a_badly_aligned_configuration_is_read_all_the_same() {
    let mut bytes = vec![0u8; size_of::<pennyConfig_t>() + 1];
    let place = bytes[1..].as_mut_ptr().cast::<pennyConfig_t>();
    // SAFETY: there is room for one from the second byte on; `admit` reads unaligned.
    let config = unsafe {
        place.write_unaligned(full());
        OrNull(place.cast_const()).admit("config")
    };
    assert_eq!(config.unwrap().name, "left");
}
