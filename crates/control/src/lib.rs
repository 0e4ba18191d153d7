//! `culvert run`: the daemon.
//!
//! Two kinds of threads matter. **Workers** move packets and own ports and buffers. The **control
//! thread**, this one, owns everything else: the source of SAs and policies, the mirror of
//! Linux's network state, the guard, the routes to the private interface, the steering programs.
//! It waits on all of their descriptors and publishes what changed.
#![forbid(unsafe_code)]

mod applications;
mod bfd;
mod carry_out;
mod clock;
pub mod files;
#[cfg(test)]
mod in_memory;
mod install;
mod life;
mod linux;
mod offload;
mod paths;
pub mod pcapng;
mod plan;
mod reload;
mod sa;
mod shows;
mod slots;
mod sources;
mod start;
pub mod users;
mod wants;
mod workers;

use std::os::fd::AsFd;
use std::sync::mpsc::Sender;
use std::time::Duration;

use config::Config;
use report::{Refused, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::clock::Now;
use self::control::{Question, Reply};
pub use self::install::{InstallOptions, InstallReport, bench_install};
use self::life::end::End;
use self::life::{
    Life, confinement, detour, error, limits, log, privileges, reloads, unprivileged, watchdog,
};
use self::linux::{
    Linux, memifs, nat, overlays, private, segments, services, topology, tunnels, vlan_priorities,
    vlans, vrfs, way_back, xfrm_interfaces,
};
use self::offload::{Offload, cryptodevs, device, devices, packet_devices, rtl_simulation};
pub use self::ports::rings::FRAMES_PER_FULL_QUEUE;
pub use self::private::is_ours as is_own_rule;
use self::sa::{Sas, by_sender, early, inner_mtus, left, lifetimes};
use self::shows::{
    Parts, Shows, control, events, kernel_blocks, limit_commands, reader, texts, vici, why,
};
use self::wants::Wants;
use self::workers::Crew;
use self::workers::news::Hearers;
use self::workers::{engines, esp_sockets, heartbeat, layout, ports, steering};

pub use applications::probe_ndpi;
pub use confinement::confine_server;
pub use engines::providers;
pub use error::StartError;
pub use limits::{FRAMES_SPARE, frames_at_start};
pub use nat::statistics as connection_statistics;
pub use plan::examine::examine;
pub use privileges::missing as missing_capabilities;
pub use privileges::{drop_all as drop_capabilities, forgo_all as forgo_capabilities};
pub use slots::QUEUES_PER_WORKER;
pub use sources::kernel::{firewalls, nat_rules};
pub use start::{RunOptions, run};
pub use vlans::port_below as vlan_below;

/// Longest sleep of the control thread: some changes come without a notification.
const TICK: Duration = Duration::from_millis(1000);

/// How often what failed (ports, steering, routes, the journal) is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Everything that the control thread owns: its parts, and what they want of the round's end.
struct Daemon {
    /// The configuration that is followed, with limits as clients have set them.
    config: Config,
    wants: Wants,
    linux: Linux,
    sa: Sas,
    offload: Offload,
    crew: Crew,
    shows: Shows,
    life: Life,
}

/// Bytes of stack that a round of the control thread may use: journal, answers and their JSON text among them.
const ROUND_STACK_LEN: usize = 128 << 10;

impl Daemon {
    /// Works until told to stop.
    fn serve(&mut self) -> End {
        loop {
            self.wait(Now::read());
            if let Some(end) = self.round(Now::read()) {
                return end;
            }
            log::tell_left_out();
            // Requests and answers have keys in them.
            mem::wipe_stack::<ROUND_STACK_LEN>();
        }
    }

    /// Hears of everything, and carries out what follows from it.
    fn round(&mut self, now: Now) -> Option<End> {
        self.offload.set_time(now);
        if let Some(end) = self.life.serve(now, &self.sa.source, &mut self.crew) {
            return Some(end);
        }
        let replies = self.obey(now);
        self.hear(now);
        if self.linux.private.is_gone {
            return Some(End::InterfaceGone);
        }
        self.carry_out(now);
        if let Some(builtin) = self.sa.source.builtin_mut() {
            builtin.confirm();
        }
        for (reply, client) in replies {
            // An error means that the client has gone.
            let _ = client.send(reply);
        }
        self.show(now);
        self.life.ending.take()
    }

    /// Sleeps until a descriptor is readable or a deadline is reached.
    fn wait(&self, now: Now) {
        let is_busy = self.wants.is_any() || self.shows.clients.have_commands();
        let due = [
            is_busy.then_some(Duration::ZERO),
            self.linux.due_in(now),
            self.sa.due_in(now, &self.config.guard),
            self.offload.due_in(),
            self.crew.paths.due_in(now),
            self.crew.bfd.due_in(now),
            self.life.due_in(now),
        ];
        let due = due.into_iter().flatten().fold(TICK, Duration::min);
        let mut fds = vec![self.crew.events.as_fd()];
        self.linux.add_fds(now, &mut fds);
        self.sa.source.add_fds(&mut fds);
        fds.extend(self.crew.bfd.fd());
        self.shows.add_fds(&mut fds);
        self.life.add_fds(&mut fds);
        let mut fds: Vec<_> =
            fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let timeout =
            Timespec { tv_sec: due.as_secs().cast_signed(), tv_nsec: due.subsec_nanos().into() };
        // Interrupted or not, the round looks at everything.
        let _ = poll(&mut fds, Some(&timeout));
    }

    /// Serves each part in turn. What follows from it they want of the round's end.
    fn hear(&mut self, now: Now) {
        let Daemon { config, wants, linux, sa, offload, crew, shows, life } = self;
        sa.serve(now, crew, wants);
        crew.serve(now, &mut Hearers { config, linux, sa, shows }, wants);
        shows.hear_early(now, sa, crew);
        linux.serve(now, config, crew, wants);
        offload.serve(now, sa, crew, &mut shows.event_log);
        if wants.links {
            offload.follow_ports(linux, sa);
        }
        if sa.have_changed() {
            shows.asked.retain(|policy| sa.wants_sas(policy));
            // Packets may wait for what has come.
            crew.workers.wake();
        }
        if life.retries(now) {
            sa.source.retry();
            linux.retry(wants);
            wants.topology |= crew.retry(now, linux.observer.snapshot());
        }
        crew.select_paths(now, linux.observer.snapshot(), &mut shows.event_log);
    }

    /// Carries out what a signal and the commands of clients say, as far as that is not for the end of the round. Clients
    /// are answered then.
    fn obey(&mut self, now: Now) -> Vec<(Reply, Sender<Reply>)> {
        if self.life.is_hung_up() {
            self.reload(now);
        }
        let mut replies = Vec::new();
        for (request, client) in self.shows.clients.commands() {
            let reply = match request {
                Request::Reload => Reply::json(&self.reload(now)),
                Request::LimitSet(set) => {
                    let refused = limit_commands::set(&mut self.config, &set).err();
                    self.wants.topology |= refused.is_none();
                    Reply::json(&refused.map(|error| Refused { error }))
                }
                request => {
                    let (shows, parts) = self.shown(now);
                    shows.answer(parts, request)
                }
            };
            replies.push((reply, client));
        }
        replies
    }

    /// Notes what has happened, and answers questions.
    fn show(&mut self, now: Now) {
        let history = self.sa.source.changes().take_history();
        let questions = self.shows.clients.questions();
        let is_of_sas = |question: &Question| matches!(question.request, Request::Sa { .. });
        if questions.iter().any(is_of_sas) {
            self.sa.refresh(now);
        }
        let (shows, parts) = self.shown(now);
        shows.note_events(parts, history);
        shows.serve(parts, questions);
    }

    /// The part that answers, and those that it answers about.
    fn shown(&mut self, now: Now) -> (&mut Shows, Parts<'_>) {
        let Daemon { config, linux, sa, offload, crew, shows, life, .. } = self;
        (shows, Parts { now, config, linux, sa, offload, crew, life })
    }
}

/// Routes and rules that lead back to culvert.
fn own(config: &Config, ifindex: u32) -> topology::Own {
    topology::Own { tables: [config.tun.table, config.tun.marked_table], ifindex }
}
