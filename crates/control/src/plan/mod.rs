//! A start and a reload are planned before anything is done: a start from nothing, a reload from what runs.
//!
//! [`plan`] is pure. It is told what runs ([`Running`]), what is wanted, and what the machine has ([`Machine`]). Its answer is
//! everything that is wrong, each with its place and a remedy, or a [`Plan`]: typed [`Step`]s in one order.
//! [`Daemon::carry_out_plan`](crate::Daemon::carry_out_plan) is what does them, for both.

mod carry_out;
pub mod examine;
pub mod failure;
mod judge;
pub mod machine;
pub mod running;
pub mod steps;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;

use config::{Config, PortConfig, Problem};

use self::machine::Machine;
use self::running::Running;
use self::steps::{Change, Step};
use crate::layout::Layout;
use crate::ports::rings::{RunningPort, ready_frames};

/// Everything between what runs and what is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// In the order in which they are done.
    pub steps: Vec<Step>,
    /// The configuration that runs then. Keys that wait for a restart have the values that they had.
    pub config: Config,
    /// The keys in which the wanted configuration differs from that one.
    pub waits_for_restart: Vec<String>,
    /// Ports that may fail to open: they have failed before, or there is nothing to go back to.
    pub may_fail: Vec<PortConfig>,
    /// Settings that are possible, and probably not meant.
    pub warnings: Vec<Problem>,
}

/// A configuration that is refused: nothing of it is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// All that is wrong; at least one.
    pub problems: Vec<Problem>,
    /// Settings that are possible, and probably not meant.
    pub warnings: Vec<Problem>,
}

/// Plans the way from what runs to what is wanted.
///
/// # Errors
/// All that is wrong with it on this machine.
pub fn plan(running: &Running, wanted: &Config, machine: &Machine) -> Result<Plan, Refusal> {
    let judged = judge::judge(running, wanted, machine);
    let layout = match judged.layout {
        Some(layout) if judged.problems.is_empty() => layout,
        _ => return Err(Refusal { problems: judged.problems, warnings: judged.warnings }),
    };
    let before = running.config.clone().unwrap_or_else(|| wanted.before_start());
    let may_fail = match running.config {
        Some(_) => {
            let failed = running.ports.iter().filter(|port| port.has_failed);
            failed.map(|port| port.config.clone()).collect()
        }
        // The rest protects what it can meanwhile, and it is tried again.
        None => wanted.ports.clone(),
    };
    Ok(Plan {
        steps: steps(running, &before, wanted, (layout, machine)),
        waits_for_restart: before.fixed_changes(wanted),
        config: before.following(wanted),
        may_fail,
        warnings: judged.warnings,
    })
}

/// The steps in their order.
fn steps(
    running: &Running,
    before: &Config,
    wanted: &Config,
    (layout, machine): (Layout, &Machine),
) -> Vec<Step> {
    let mut steps = Vec::new();
    let ready = ready_frames(before.worker.frames, machine.queues_in_all(wanted));
    let kept = |port: &&RunningPort| {
        // With more queues than before, one keeps fewer frames.
        let has_its_share = port.ready.is_none_or(|frames| Some(frames) <= ready);
        has_its_share && wanted.ports.contains(&port.config)
    };
    let kept: Vec<PortConfig> =
        running.ports.iter().filter(kept).map(|port| port.config.clone()).collect();
    let open: Vec<PortConfig> = running.ports.iter().map(|port| port.config.clone()).collect();

    // What goes, before what comes: it may have the same if_id, socket or place.
    steps.extend(missing(&running.tunnels, &wanted.tunnels).map(Step::CloseTunnel));
    steps.extend(missing(&running.memifs, &wanted.memifs).map(Step::CloseMemif));
    steps.extend(missing(&open, &kept).map(Step::ClosePort));
    // They get what is opened.
    steps.extend(Change::between(&running.layout, &layout).map(Step::Workers));
    steps.extend(missing(&wanted.tunnels, &running.tunnels).map(Step::OpenTunnel));
    steps.extend(missing(&wanted.memifs, &running.memifs).map(Step::OpenMemif));
    steps.extend(Change::between(&before.vici, &wanted.vici).map(Step::Vici));
    let of_paths = |config: &Config| {
        (config.path_options.clone(), config.paths.clone(), config.steers.clone())
    };
    let (from, to) = (of_paths(before), of_paths(wanted));
    // Files may have other keys than before.
    let has_keys = !to.0.key_files.is_empty()
        || to.0.clear.is_some()
        || to.1.iter().any(|path| path.key_file.is_some());
    let has_changed = from != to || has_keys;
    steps.extend(has_changed.then_some(Step::Paths(Change { from, to })));
    steps.extend(missing(&wanted.ports, &kept).map(Step::OpenPort));

    steps.extend(Change::between(&before.marks, &wanted.marks).map(Step::Marks));
    steps.extend(Change::between(&before.vlans, &wanted.vlans).map(Step::Vlans));
    steps.extend(Change::between(&before.gtpu, &wanted.gtpu).map(Step::Gtpu));
    steps.extend(Change::between(&before.limits, &wanted.limits).map(Step::Limits));
    let of_applications =
        |config: &Config| (config.applications.clone(), config.application_list.clone());
    let applications = Change::between(&of_applications(before), &of_applications(wanted));
    steps.extend(applications.map(Step::Applications));
    let srv6 = |config: &Config| (config.srv6.clone(), config.sids.clone());
    steps.extend(Change::between(&srv6(before), &srv6(wanted)).map(Step::Srv6));
    steps.extend(Change::between(&before.overlay, &wanted.overlay).map(Step::Overlay));
    steps.extend(Change::between(&before.bfd, &wanted.bfd).map(Step::Bfd));
    steps.extend(Change::between(&before.guard, &wanted.guard).map(Step::Guard));
    steps.extend(Change::between(&before.path_mtu, &wanted.path_mtu).map(Step::PathMtu));
    steps
}

/// Those that other ones lack.
fn missing<'a, T: Clone + PartialEq>(
    of: &'a [T],
    others: &'a [T],
) -> impl Iterator<Item = T> + use<'a, T> {
    of.iter().filter(|one| !others.contains(one)).cloned()
}
