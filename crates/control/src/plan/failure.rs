//! Why a plan is not carried out.

use thiserror::Error;

use crate::life::end::End;
use crate::workers::{ChangeError, Death, WorkersError};

/// A step that was refused.
#[derive(Debug, Error)]
pub enum StepError {
    /// The interface of a tunnel or of a memif port.
    #[error(transparent)]
    Interface(#[from] io::TunError),
    /// A thread that asks charon.
    #[error("a thread that asks charon (vici.socket): {0}")]
    Vici(std::io::Error),
    /// Keys of measured paths.
    #[error("[[path]]: {0}")]
    Paths(String),
    /// Other workers. Those of before go on.
    #[error(transparent)]
    Workers(WorkersError),
    /// A port, by its driver.
    #[error("port {interface}: {why}")]
    Port {
        /// Name of its interface.
        interface: String,
        /// Reason, in a line.
        why: String,
    },
}

/// Why a plan was not carried out.
#[derive(Debug)]
pub enum Failure {
    /// A step was refused.
    Refused(StepError),
    /// The workers are lost: the daemon has to end.
    Lost(Lost),
}

/// How workers were lost while they changed.
#[derive(Debug)]
pub enum Lost {
    /// A worker has panicked.
    Died(Death),
    /// The new ones did not start.
    NotStarted(WorkersError),
}

impl From<Lost> for End {
    fn from(lost: Lost) -> End {
        match lost {
            Lost::Died(death) => End::WorkerDied(death),
            Lost::NotStarted(error) => End::WorkersLost(error),
        }
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Failure {
        match error {
            ChangeError::NotBegun(error) => Failure::Refused(StepError::Workers(error)),
            ChangeError::Dead(death) => Failure::Lost(Lost::Died(death)),
            ChangeError::Halfway(error) => Failure::Lost(Lost::NotStarted(error)),
        }
    }
}

impl<E: Into<StepError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Refused(error.into())
    }
}
