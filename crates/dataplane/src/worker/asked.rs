//! Answers that a worker owes the control thread.

use std::sync::mpsc::Sender;

use policy::SaId;

use crate::model::{Explanation, Probe};

/// A question that waits for its answer.
pub(super) enum PendingAnswer {
    /// A window to be merged: [`Command::MergeWindow`](crate::Command::MergeWindow).
    Merge(Merge),
    /// An answer once all is followed: [`Command::CatchUp`](crate::Command::CatchUp).
    CatchUp(Sender<()>),
    /// An answer once nothing waits: [`Command::Drain`](crate::Command::Drain).
    Drain(Since, Sender<()>),
    /// An explanation: [`Command::Explain`](crate::Command::Explain).
    Explain(Box<Probe>, Sender<Explanation>),
}

/// A window to be united with an SA's.
///
/// The other has received a packet before some that wait here: these would be behind the window. So it is done
/// when nothing waits any more, or when the SA's own window is there.
pub(super) struct Merge {
    pub sa: SaId,
    pub edge: u64,
    pub received: Vec<u64>,
    pub done: Sender<bool>,
    pub since: Since,
}

/// When something was asked for that is done when no packet waits any more.
#[derive(Clone, Copy)]
pub(super) struct Since {
    /// How many rounds had found nothing.
    pub(super) idle_rounds: u64,
    pub(super) at_ns: u64,
}
