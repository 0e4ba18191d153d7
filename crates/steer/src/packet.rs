//! The programs of ports that are packet sockets: the sockets' filter, and what stands at tc ingress.
//!
//! There the program is attached by a link (Linux 6.6 and later), which goes with the process. The older way, a
//! filter of the qdisc `clsact`, would outlive a daemon that was killed, and end for ever what no socket takes
//! any more.

use std::os::fd::{AsFd, BorrowedFd};

use aya::Ebpf;
use aya::programs::tc::TcAttachOptions;
use aya::programs::{
    LinkOrder, Program, ProgramError, SchedClassifier, SocketFilter, TcAttachType, TestRun,
    TestRunOptions,
};

use crate::again::load_again;
use crate::error::{SteerError, chain, load_error, refused_trial, short};

/// The program at tc ingress, and the sockets' filter; see `bpf/packet.bpf.c`.
pub(crate) const SHUT: &str = "shut";
const SIFT: &str = "sift";

/// An object's program, by name.
pub(crate) fn named<'a, T>(
    object: &'a mut Ebpf,
    name: &str,
    interface: &str,
) -> Result<&'a mut T, SteerError>
where
    &'a mut T: TryFrom<&'a mut Program, Error = ProgramError>,
{
    object
        .program_mut(name)
        .ok_or_else(|| load_error(interface, format!("no program {name} in the object")))?
        .try_into()
        .map_err(|error: ProgramError| load_error(interface, chain(&error)))
}

/// Loads both programs: the filter of the sockets, and the one at tc ingress.
pub(crate) fn load(object: &mut Ebpf, interface: &str) -> Result<(), SteerError> {
    let fail = |error: ProgramError| load_error(interface, short(&chain(&error)));
    let sift = named::<SocketFilter>(object, SIFT, interface)?;
    load_again(|| sift.load()).map_err(fail)?;
    let shut = named::<SchedClassifier>(object, SHUT, interface)?;
    load_again(|| shut.load()).map_err(fail)
}

/// Attaches the program at tc ingress, before those that are there. The object keeps the link.
pub(crate) fn attach(object: &mut Ebpf, interface: &str) -> Result<(), SteerError> {
    let shut: &mut SchedClassifier = named(object, SHUT, interface)?;
    let by_link = TcAttachOptions::TcxOrder(LinkOrder::first());
    let attached = shut.attach_with_options(interface, TcAttachType::Ingress, by_link);
    let missing =
        |error| SteerError::NoTcx { interface: interface.to_owned(), reason: chain(&error) };
    attached.map(drop).map_err(missing)
}

/// The filter's descriptor.
pub(crate) fn filter_fd<'a>(
    object: &'a mut Ebpf,
    interface: &str,
) -> Result<BorrowedFd<'a>, SteerError> {
    let sift: &mut SocketFilter = named(object, SIFT, interface)?;
    let fd = sift.fd().map_err(|error| load_error(interface, chain(&error)))?;
    Ok(fd.as_fd())
}

/// Gives a frame to both, as the kernel would.
pub(crate) fn try_frame(
    object: &mut Ebpf,
    interface: &str,
    frame: &[u8],
) -> Result<u32, SteerError> {
    let refused = |error: ProgramError| refused_trial(interface, chain(&error));
    let sift: &mut SocketFilter = named(object, SIFT, interface)?;
    // In a trial a filter sees what is behind an Ethernet header.
    let behind = [&[0; 14], frame].concat();
    let options = TestRunOptions { data_in: Some(&behind), ..TestRunOptions::new() };
    let is_taken = sift.test_run(options).map_err(refused)?.return_value != 0;
    let shut: &mut SchedClassifier = named(object, SHUT, interface)?;
    let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
    let action = shut.test_run(options).map_err(refused)?.return_value;
    match is_taken == (action == TC_ACT_SHOT) {
        true => Ok(action),
        false => {
            let reason = format!("taken by the filter: {is_taken}, at tc ingress: {action}");
            Err(refused_trial(interface, reason))
        }
    }
}

const TC_ACT_SHOT: u32 = 2;
