//! The entrances of functions that have to know who calls them.

/// Declares functions of libc as this library has them: an entrance that passes its return address on, as one more argument in the
/// register after those of the function, and the function behind it.
///
/// ```text
///     entrance! { fn name(argument: Type, ...) -> Result, register, behind }
/// ```
macro_rules! entrance {
    ($($(#[$meta:meta])* fn $name:ident = $symbol:literal ($($type:ty),*) -> $result:ty, $intel:literal, $arm:literal, $behind:path;)*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        /// As that of libc.
        #[unsafe(export_name = $symbol)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name($(_: $type),*) -> $result {
            #[cfg(target_arch = "x86_64")]
            std::arch::naked_asm!(concat!("mov ", $intel, ", [rsp]"), "jmp {behind}", behind = sym $behind);
            #[cfg(target_arch = "aarch64")]
            std::arch::naked_asm!(concat!("mov ", $arm, ", x30"), "b {behind}", behind = sym $behind);
        }
    )*};
}

pub(crate) use entrance;
