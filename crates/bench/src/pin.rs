//! Threads that stay on one core.

use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::BenchError;

/// Runs `work` on a thread of its own, kept on one core, so that the caller's is as before.
pub(crate) fn pinned<R: Send>(
    cpu: Option<usize>,
    work: impl FnOnce() -> Result<R, BenchError> + Send,
) -> Result<R, BenchError> {
    thread::scope(|scope| {
        let measured = scope.spawn(|| {
            pin(cpu)?;
            work()
        });
        match measured.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Keeps the calling thread on one core: the one asked for, or where it is.
pub(crate) fn pin(cpu: Option<usize>) -> Result<(), BenchError> {
    let mut set = CpuSet::new();
    let cpu = cpu.unwrap_or_else(rustix::thread::sched_getcpu);
    if cpu >= CpuSet::MAX_CPU {
        let allowed = "the number of a core";
        return Err(BenchError::Option { what: "cpu", given: cpu, allowed });
    }
    set.set(cpu);
    sched_setaffinity(None, &set)
        .map_err(BenchError::system(&format!("--cpu {cpu}: pin to this core")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_is_not_there_is_refused_with_its_number() {
        let error = pinned(Some(1000), || Ok(())).unwrap_err().to_string();
        assert!(error.contains("--cpu 1000"), "{error}");
        let error = pinned(Some(usize::MAX), || Ok(())).unwrap_err();
        assert!(matches!(error, BenchError::Option { what: "cpu", .. }), "{error}");
    }
}
