//! Report of a pair's receiver to its sender.

/// All that there is to tell, as of now; a later one makes those before void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The inverse of the loss event rate of what comes, 0 for no loss.
    pub loss_event_rate: u32,
    /// True if congestion marks are part of the rate.
    pub is_congested: bool,
    /// The value to send back; 0 for none.
    pub echo: u32,
    /// When that came.
    pub came_us: u64,
    /// The last report of the other end.
    pub heard: Option<Heard>,
}

/// A report of the other end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The inverse of the loss event rate of what it gets, 0 for no loss.
    pub loss_event_rate: u32,
    /// How long a value took there and back, without the time that it stayed there.
    pub path_us: u32,
    /// The interval at which the other end sends.
    pub transmit_delay_us: u32,
    /// When it was heard.
    pub at_us: u64,
}
