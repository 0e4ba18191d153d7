//! Positive errnos, as the kernel answers them.

/// `EINVAL`.
pub const EINVAL: i32 = 22;
/// `ESRCH`.
pub const ESRCH: i32 = 3;
/// `ENOMEM`.
pub const ENOMEM: i32 = 12;
/// `ENOSYS`: what Linux answers for an algorithm that it does not have.
pub const ENOSYS: i32 = 38;
/// `EIO`.
pub const EIO: i32 = 5;
/// `EEXIST`.
pub const EEXIST: i32 = 17;
/// `ENODEV`.
pub const ENODEV: i32 = 19;
/// `ENOSPC`.
pub const ENOSPC: i32 = 28;
/// `EOPNOTSUPP`.
pub const EOPNOTSUPP: i32 = 95;
