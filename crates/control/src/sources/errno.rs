//! Positive errnos, as the kernel answers them.

/// Invalid argument (`EINVAL`).
pub const EINVAL: i32 = 22;
/// Nothing of that name (`ESRCH`).
pub const ESRCH: i32 = 3;
/// No memory (`ENOMEM`).
pub const ENOMEM: i32 = 12;
/// `ENOSYS`: what Linux answers for an algorithm that it does not have.
pub const ENOSYS: i32 = 38;
/// Failed input or output (`EIO`).
pub const EIO: i32 = 5;
/// There already (`EEXIST`).
pub const EEXIST: i32 = 17;
/// No such device (`ENODEV`).
pub const ENODEV: i32 = 19;
/// No room (`ENOSPC`).
pub const ENOSPC: i32 = 28;
/// Not supported (`EOPNOTSUPP`).
pub const EOPNOTSUPP: i32 = 95;
