//! Errors, split by whose fault they are.

use crate::attribute::Attribute;
use crate::handle::PolicyHandle;

/// Why a device did not take an SA or a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The device does not carry out this attribute.
    #[error("the device does not do this: {0}")]
    Unsupported(Attribute),
    /// A table of the device is full.
    #[error("the device has room for {most} {what}, and all are taken")]
    Full {
        /// Name of the table.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// The caller asked for what no device does.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The device failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A mistake of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Keys do not fit the suite.
    #[error("the keys do not fit the suite")]
    Keys,
    /// There is an inbound SA with this destination and SPI, or a policy with this selector.
    #[error("it is there already")]
    Exists,
    /// A selector mixes families, or a prefix is longer than its address.
    #[error("the selector is none")]
    Selector,
    /// The policy names an SA that is not there, no SA where it needs one, or one where it has no use.
    #[error("the policy's SA is not there, or not wanted")]
    PolicySa,
}

/// A fault of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The device is gone: unplugged, reset, its driver unloaded. It does not come back.
    #[error("the device is gone")]
    Gone,
    /// The device did not answer in time.
    #[error("the device does not answer")]
    Unresponsive,
    /// The device, or the library under it, broke its own contract.
    #[error("the device failed: {0}")]
    Broken(&'static str),
}

/// Why nothing was done with an SA or a policy that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    /// There is none, or not any more.
    #[error("the device has no such entry")]
    Unknown,
    /// A policy still leads to the SA.
    #[error("policy {} still leads to the SA", .0.0)]
    InUse(PolicyHandle),
    /// The device failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}
