//! Loads the program, attaches it to one interface, and keeps its tables.

use core::fmt;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, PoisonError};

use aya::maps::MapError;
use aya::programs::Xdp;
use aya::programs::links::FdLink;
use aya::{Ebpf, EbpfLoader};
use wire::VlanTags;

use crate::again::load_again;
use crate::attach::attach;
use crate::config::{Attached, Flow, Hook, Mode, Prefix, SteerConfig, UdpPorts};
use crate::error::{SteerError, chain, load_error, refused_trial, short};
use crate::maps::{
    Maps, absent_is_fine, insert_flow, insert_protected, insert_sa, let_one_pass, remove_flow,
    remove_protected, remove_sa,
};
use crate::packet::{self, named};
use crate::table::Table;
use crate::tags::{StrippedTags, Tags, Teller};
use crate::verdict::{Stats, Verdict};

/// The program on one interface. Dropping it detaches it: frames pass to Linux.
///
/// For one thread: the control side. The tables take effect frame by frame, at once.
pub struct Steer {
    interface: String,
    maps: Maps,
    local: Table<IpAddr>,
    protected: Table<Prefix>,
    sas: Table<(IpAddr, u32)>,
    ports: Table<(u16, u8)>,
    vlans: Table<VlanTags>,
    /// The program's configuration word.
    flags: u32,
    /// `None` until attached, and where the program itself keeps the link.
    link: Option<FdLink>,
    /// The program at tc ingress is attached.
    has_tcx: bool,
    tags: Tags,
    // Keeps the program loaded.
    program: Ebpf,
    name: &'static str,
    hook: Hook,
}

impl Steer {
    /// Loads the program for an interface, with empty tables but for the default [`UdpPorts`], and
    /// does not touch the interface yet.
    ///
    /// # Errors
    ///
    /// [`SteerError`] names the step that failed, and a remedy.
    pub fn load(
        loader: &Loader,
        interface: &str,
        config: &SteerConfig,
    ) -> Result<Self, SteerError> {
        let (program, maps, name, tags) = loader.load(interface, config)?;
        let mut steer = Self {
            interface: interface.to_owned(),
            maps,
            local: Table::default(),
            protected: Table::default(),
            sas: Table::default(),
            ports: Table::default(),
            vlans: Table::default(),
            link: None,
            has_tcx: false,
            tags,
            program,
            flags: 0,
            name,
            hook: config.hook,
        };
        steer.set_udp_ports(&UdpPorts::default())?;
        Ok(steer)
    }

    /// Attaches the program of packet sockets, which takes nothing before [`Steer::attach`]. Tells whether the kernel
    /// has links at tc ingress before anything depends on them. With XDP nothing is done.
    ///
    /// # Errors
    ///
    /// [`SteerError::NoTcx`].
    pub fn prepare(&mut self) -> Result<(), SteerError> {
        if self.hook == Hook::Packet && !self.has_tcx {
            packet::attach(&mut self.program, &self.interface)?;
            self.has_tcx = true;
        }
        Ok(())
    }

    /// Attaches the program to its interface, in the calling thread's network namespace: from now
    /// on it decides. Says where it was attached.
    ///
    /// # Errors
    ///
    /// [`SteerError`] names the step that failed, and a remedy.
    pub fn attach(&mut self, mode: Mode) -> Result<Attached, SteerError> {
        if self.hook == Hook::Packet {
            self.prepare()?;
            self.set_flag(OPEN, true)?;
            return Ok(Attached::Tcx);
        }
        if self.tags.attach(&self.interface, mode)? {
            return Ok(Attached::Native);
        }
        let interface = self.interface.clone();
        let (link, attached) = attach(self.plain()?, &interface, mode)?;
        self.link = Some(link);
        Ok(attached)
    }

    /// The program that asks for no tags, which is not loaded where another took its place.
    fn plain(&mut self) -> Result<&mut Xdp, SteerError> {
        let xdp: &mut Xdp = named(&mut self.program, self.name, &self.interface)?;
        if xdp.fd().is_err() {
            let interface = &self.interface;
            load_again(|| xdp.load())
                .map_err(|error| load_error(interface, short(&chain(&error))))?;
        }
        Ok(xdp)
    }

    /// [`Steer::load`] and [`Steer::attach`], with a loader of its own.
    ///
    /// # Errors
    ///
    /// [`SteerError`] names the step that failed, and a remedy. Nothing stays attached then.
    pub fn load_and_attach(
        interface: &str,
        config: &SteerConfig,
    ) -> Result<(Self, Attached), SteerError> {
        let mut steer = Self::load(&Loader::new(), interface, config)?;
        let attached = steer.attach(config.mode)?;
        Ok((steer, attached))
    }

    /// Checks that this kernel takes the program and its tables: loads and unloads them. No
    /// interface is touched.
    ///
    /// # Errors
    ///
    /// [`SteerError::Load`] names the step that failed, and a remedy.
    pub fn try_load(config: &SteerConfig) -> Result<(), SteerError> {
        Loader::new().load("trial", config).map(drop)
    }

    /// Where it stands, or is to stand.
    pub const fn hook(&self) -> Hook {
        self.hook
    }

    /// Treatment of VLAN tags that the driver takes out of frames. Before [`Steer::attach`]: the
    /// treatment if that succeeds.
    pub const fn stripped_tags(&self) -> &StrippedTags {
        self.tags.fate()
    }

    /// True if it was loaded for an interface of this index. Others get no tags put back.
    pub fn is_for(&self, ifindex: u32) -> bool {
        self.hook == Hook::Packet || self.tags.ifindex() == Some(ifindex)
    }

    /// Name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Sends the frames of a queue to an AF_XDP socket that is bound to the same queue. When the
    /// socket is closed the kernel removes it from the table by itself.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] if the descriptor is no AF_XDP socket or the queue is too high.
    pub fn set_socket(&mut self, queue: u32, socket: BorrowedFd<'_>) -> Result<(), SteerError> {
        let Some(xsks) = &mut self.maps.xsks else { return Err(self.no_table("xsks")) };
        let result = xsks.set(queue, socket, 0);
        result.map_err(|error| self.table_error("xsks", &error))
    }

    /// Lets a queue's frames pass to Linux.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] if the queue is too high.
    pub fn clear_socket(&mut self, queue: u32) -> Result<(), SteerError> {
        let Some(xsks) = &mut self.maps.xsks else { return Err(self.no_table("xsks")) };
        let result = absent_is_fine(xsks.unset(queue));
        result.map_err(|error| self.table_error("xsks", &error))
    }

    /// The filter of packet sockets that get what is taken ([`Hook::Packet`]).
    ///
    /// # Errors
    ///
    /// [`SteerError::Load`] for a program of another hook.
    pub fn filter(&mut self) -> Result<BorrowedFd<'_>, SteerError> {
        packet::filter_fd(&mut self.program, &self.interface)
    }

    /// Passes packets with this mark, which were given back to the interface
    /// ([`GiveBack`](crate::GiveBack)), and those with its complement, whose mark is removed. Only
    /// [`Hook::Packet`] sees it again.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn set_given_back(&mut self, mark: u32) -> Result<(), SteerError> {
        let Some(given_back) = &mut self.maps.given_back else { return Ok(()) };
        let result = given_back.set(0, mark, 0);
        result.map_err(|error| self.table_error("given_back", &error))
    }

    /// Sets whether ESP to this host whose SPI is not in the table, or that is a fragment, is taken
    /// (and counted) rather than left to Linux. A kernel without ESP answers it with an ICMP error;
    /// one with ESP may have the SA. Off at first.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn set_take_unknown_esp(&mut self, take: bool) -> Result<(), SteerError> {
        self.set_flag(TAKE_UNKNOWN_ESP, take)
    }

    /// Sets whether fragments of UDP to this host are taken, where unknown ESP is: some may be of
    /// ESP in UDP, and later ones do not say. Off at first.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn set_take_udp_fragments(&mut self, take: bool) -> Result<(), SteerError> {
        self.set_flag(TAKE_UDP_FRAGMENTS, take)
    }

    /// Sets whether ICMPv6 errors to this host are taken that are about packets with segments
    /// (SRv6), or packets that get some. Off at first.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn set_take_segment_errors(&mut self, take: bool) -> Result<(), SteerError> {
        self.set_flag(TAKE_SEGMENT_ERRORS, take)
    }

    /// Sets whether GRE to this host is taken: what is inside may go on here. Off at first.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn set_take_gre(&mut self, take: bool) -> Result<(), SteerError> {
        self.set_flag(TAKE_GRE, take)
    }

    /// Sets whether L2TPv3 over IP to this host is taken: what is inside may go on here. Off at first.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn set_take_l2tp(&mut self, take: bool) -> Result<(), SteerError> {
        self.set_flag(TAKE_L2TP, take)
    }

    /// Sets whether frames are taken only while the daemon is alive: until the time that
    /// [`Steer::beat`] told last; before the first one none is. Off at first.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn set_watchdog(&mut self, is_on: bool) -> Result<(), SteerError> {
        self.set_flag(WATCHDOG, is_on)
    }

    /// The daemon is alive until this time: in ns of `CLOCK_MONOTONIC`, of the initial time namespace. One
    /// system call. The end is noticed up to a jiffy late (1 to 10 ms).
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn beat(&mut self, until_ns: u64) -> Result<(), SteerError> {
        let result = self.maps.alive_until.set(0, until_ns, 0);
        result.map_err(|error| self.table_error("alive_until", &error))
    }

    fn set_flag(&mut self, flag: u32, is_set: bool) -> Result<(), SteerError> {
        let flags = if is_set { self.flags | flag } else { self.flags & !flag };
        let result = self.maps.config.set(0, flags, 0);
        result.map_err(|error| self.table_error("config", &error))?;
        self.flags = flags;
        Ok(())
    }

    /// Sets the UDP ports of IKE, NAT traversal and overlays.
    ///
    /// # Errors
    ///
    /// [`SteerError::Full`] or [`SteerError::Table`].
    pub fn set_udp_ports(&mut self, ports: &UdpPorts) -> Result<(), SteerError> {
        let ike = ports.ike.iter().map(|&port| (port, PORT_IKE));
        // A port cannot be both; as NAT-T port it serves IKE as well.
        let ike = ike.filter(|(port, _)| !ports.natt.contains(port));
        let natt = ports.natt.iter().map(|&port| (port, PORT_NATT));
        let is_free = |port: &&u16| !ports.natt.contains(port) && !ports.ike.contains(port);
        let overlays = ports.overlays.iter().filter(is_free).map(|&port| (port, PORT_OVERLAY));
        let map = core::cell::RefCell::new(&mut self.maps.ports);
        let result = self.ports.replace(
            ike.chain(natt).chain(overlays),
            |(port, kind)| map.borrow_mut().insert(port.to_be_bytes(), kind, 0),
            |(port, kind)| {
                let mut map = map.borrow_mut();
                // The same port may just have been added with another kind.
                match map.get(&port.to_be_bytes(), 0) {
                    Ok(now) if now != *kind => Ok(()),
                    _ => absent_is_fine(map.remove(&port.to_be_bytes())),
                }
            },
        );
        result.map_err(|error| self.table_error("ports", &error))
    }

    /// Sets this host's addresses.
    ///
    /// # Errors
    ///
    /// [`SteerError::Full`] or [`SteerError::Table`]; what was set by then stays.
    pub fn set_local(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<(), SteerError> {
        let maps = core::cell::RefCell::new(&mut self.maps);
        let result = self.local.replace(
            addresses,
            |addr| match addr {
                IpAddr::V4(v4) => maps.borrow_mut().local4.insert(v4.octets(), 1, 0),
                IpAddr::V6(v6) => maps.borrow_mut().local6.insert(v6.octets(), 1, 0),
            },
            |addr| {
                absent_is_fine(match addr {
                    IpAddr::V4(v4) => maps.borrow_mut().local4.remove(&v4.octets()),
                    IpAddr::V6(v6) => maps.borrow_mut().local6.remove(&v6.octets()),
                })
            },
        );
        result.map_err(|error| self.table_error("local", &error))
    }

    /// Sets the VLANs whose frames are judged; those of others pass.
    ///
    /// # Errors
    ///
    /// [`SteerError::Full`] or [`SteerError::Table`]; what was set by then stays.
    pub fn set_vlans(
        &mut self,
        vlans: impl IntoIterator<Item = VlanTags>,
    ) -> Result<(), SteerError> {
        let map = core::cell::RefCell::new(&mut self.maps.vlans);
        let result = self.vlans.replace(
            vlans.into_iter().filter(|tags| !tags.is_empty()),
            |tags| map.borrow_mut().insert(tags.word(), 1, 0),
            |tags| absent_is_fine(map.borrow_mut().remove(&tags.word())),
        );
        result.map_err(|error| self.table_error("vlans", &error))
    }

    /// Sets the protected prefixes: the destinations of policies in every direction. Packets to
    /// them are judged by the policy database and by nobody else.
    ///
    /// # Errors
    ///
    /// [`SteerError::Full`] or [`SteerError::Table`]; what was set by then stays, and nothing has
    /// been removed unless everything was added.
    pub fn set_protected(
        &mut self,
        prefixes: impl IntoIterator<Item = Prefix>,
    ) -> Result<(), SteerError> {
        let maps = core::cell::RefCell::new(&mut self.maps);
        let result = self.protected.replace(
            prefixes,
            |prefix| insert_protected(&mut maps.borrow_mut(), *prefix),
            |prefix| remove_protected(&mut maps.borrow_mut(), *prefix),
        );
        result.map_err(|error| self.table_error("protected", &error))
    }

    /// Adds one protected prefix.
    ///
    /// # Errors
    ///
    /// [`SteerError::Full`] or [`SteerError::Table`].
    pub fn add_protected(&mut self, prefix: Prefix) -> Result<(), SteerError> {
        let maps = &mut self.maps;
        let result = self.protected.add(prefix, |prefix| insert_protected(maps, *prefix));
        result.map_err(|error| self.table_error("protected", &error))
    }

    /// Removes one protected prefix.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`].
    pub fn remove_protected(&mut self, prefix: Prefix) -> Result<(), SteerError> {
        let maps = &mut self.maps;
        let result = self.protected.remove(&prefix, |prefix| remove_protected(maps, *prefix));
        result.map_err(|error| self.table_error("protected", &error))
    }

    /// Takes a direction of a flow, or leaves it to the other rules. It takes effect if there is room for flows
    /// ([`Sizes::flows`](crate::Sizes::flows)). The kernel's table is the only copy: there may be millions.
    ///
    /// # Errors
    ///
    /// [`SteerError::Full`] or [`SteerError::Table`].
    pub fn set_flow(&mut self, flow: &Flow, is_taken: bool) -> Result<(), SteerError> {
        let result = match is_taken {
            true => insert_flow(&mut self.maps, flow),
            false => remove_flow(&mut self.maps, flow),
        };
        result.map_err(|error| self.table_error("flows", &error))
    }

    /// Sets the inbound SAs, by destination and SPI (host byte order).
    ///
    /// # Errors
    ///
    /// [`SteerError::Full`] or [`SteerError::Table`]; what was set by then stays.
    pub fn set_sas(
        &mut self,
        sas: impl IntoIterator<Item = (IpAddr, u32)>,
    ) -> Result<(), SteerError> {
        let maps = core::cell::RefCell::new(&mut self.maps);
        let result = self.sas.replace(
            sas,
            |sa| insert_sa(&mut maps.borrow_mut(), sa),
            |sa| remove_sa(&mut maps.borrow_mut(), sa),
        );
        result.map_err(|error| self.table_error("sad", &error))
    }

    /// Adds one inbound SA.
    ///
    /// # Errors
    ///
    /// [`SteerError::Full`] or [`SteerError::Table`].
    pub fn add_sa(&mut self, dst: IpAddr, spi: u32) -> Result<(), SteerError> {
        let maps = &mut self.maps;
        let result = self.sas.add((dst, spi), |sa| insert_sa(maps, sa));
        result.map_err(|error| self.table_error("sad", &error))
    }

    /// Removes one inbound SA.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn remove_sa(&mut self, dst: IpAddr, spi: u32) -> Result<(), SteerError> {
        let maps = &mut self.maps;
        let result = self.sas.remove(&(dst, spi), |sa| remove_sa(maps, sa));
        result.map_err(|error| self.table_error("sad", &error))
    }

    /// Lets the SA's next packet to come by this interface pass to Linux; the program then takes the SA's
    /// packets again by itself. Of packets that several CPUs look at at once exactly one passes, and one alone
    /// does if this is called again before any has come. Fragments are not looked at.
    ///
    /// False, and nothing is done, if the SA is not in the table.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn sample_sa(&mut self, dst: IpAddr, spi: u32) -> Result<bool, SteerError> {
        let sa = (dst, spi);
        if !self.sas.contains(&sa) {
            return Ok(false);
        }
        let result = let_one_pass(&mut self.maps, &sa);
        result.map_err(|error| self.table_error("sad", &error))?;
        Ok(true)
    }

    /// Reads the counters of all CPUs.
    ///
    /// # Errors
    ///
    /// [`SteerError::Table`] when the kernel refuses.
    pub fn stats(&self) -> Result<Stats, SteerError> {
        let mut stats = Stats::default();
        for (verdict, counter) in Verdict::ALL.into_iter().zip(&mut stats.counters) {
            let values = self.maps.stats.get(&(verdict as u32), 0);
            let values = values.map_err(|error| self.table_error("stats", &error))?;
            *counter = values.iter().sum();
        }
        Ok(stats)
    }

    /// Gives the program a frame (`BPF_PROG_TEST_RUN`), as if it came in on queue 0 of the loopback
    /// interface, and returns its answer (`XDP_PASS` 2, `XDP_REDIRECT` 4; of [`Hook::Packet`], whose filter is
    /// asked first and has to agree, `TC_ACT_SHOT` 2 and `TC_ACT_UNSPEC` -1). The counters move. No tag is put back.
    /// For tests, and for a self-test of a running system.
    ///
    /// # Errors
    ///
    /// [`SteerError::Load`] when the kernel refuses; frames shorter than 14 bytes are refused.
    pub fn try_frame(&mut self, frame: &[u8]) -> Result<u32, SteerError> {
        use aya::programs::{TestRun, TestRunOptions};
        if self.hook == Hook::Packet {
            return packet::try_frame(&mut self.program, &self.interface, frame);
        }
        let options = TestRunOptions { data_in: Some(frame), ..TestRunOptions::new() };
        let result = self.plain()?.test_run(options);
        let result = result.map_err(|error| refused_trial(&self.interface, chain(&error)))?;
        Ok(result.return_value)
    }

    fn no_table(&self, table: &'static str) -> SteerError {
        let reason = "the program has none".to_owned();
        SteerError::Table { interface: self.interface.clone(), table, reason }
    }

    fn table_error(&self, table: &'static str, error: &MapError) -> SteerError {
        let interface = self.interface.clone();
        if let MapError::SyscallError(call) = error
            && matches!(call.io_error.raw_os_error(), Some(libc::E2BIG | libc::ENOSPC))
        {
            return SteerError::Full { interface, table };
        }
        SteerError::Table { interface, table, reason: chain(error) }
    }
}

impl Drop for Steer {
    /// Sockets may keep their filter for a while: it shall take nothing that is not ended at tc ingress.
    fn drop(&mut self) {
        if self.hook == Hook::Packet {
            // In vain only where the kernel has lost the table, and then nothing is taken.
            let _ = self.set_flag(OPEN, false);
        }
    }
}

impl fmt::Debug for Steer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Steer({})", self.interface)
    }
}

/// Loads programs into the kernel. Making one takes some 50 ms, so one serves all programs.
pub struct Loader {
    aya: Mutex<EbpfLoader<'static>>,
    teller: Teller,
}

impl Loader {
    /// A loader that has dropped the BTF of the kernel.
    pub fn new() -> Self {
        // Drops the kernel's BTF, which `new` has parsed and this program does not need.
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        Self { aya: Mutex::new(loader), teller: Teller::default() }
    }

    /// Loads the program and its tables into the kernel; `interface` is for messages.
    fn load(
        &self,
        interface: &str,
        config: &SteerConfig,
    ) -> Result<(Ebpf, Maps, &'static str, Tags), SteerError> {
        let (object, name) = match (config.hook, config.frags) {
            (Hook::Xdp, false) => (crate::OBJECT, "steer"),
            (Hook::Xdp, true) => (crate::OBJECT, "steer_frags"),
            (Hook::Packet, _) => (crate::PACKET_OBJECT, packet::SHUT),
        };
        let load_error = |reason| load_error(interface, reason);
        let sizes = config.sizes;
        let takes_flows: &'static u32 = if sizes.flows > 0 { &1 } else { &0 };
        let mut program = self
            .aya
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .map_max_entries("xsks", sizes.queues)
            .map_max_entries("sad4", sizes.sas)
            .map_max_entries("sad6", sizes.sas)
            .map_max_entries("protected4", sizes.prefixes)
            .map_max_entries("protected6", sizes.prefixes)
            .map_max_entries("local4", sizes.addresses)
            .map_max_entries("local6", sizes.addresses)
            .map_max_entries("flows4", sizes.flows.max(1))
            .map_max_entries("flows6", sizes.flows.max(1))
            .override_global("takes_flows", takes_flows, true)
            .load(&object.0)
            .map_err(|error| load_error(chain(&error)))?;
        // The verifier takes long, so it runs without the lock.
        let tags = Tags::load(interface, config, &program, &self.teller);
        let maps = Maps::take(&mut program)
            .map_err(|(table, reason)| load_error(format!("map {table}: {reason}")))?;
        match config.hook {
            Hook::Xdp if tags.is_loaded() => {}
            Hook::Xdp => {
                let xdp = named::<Xdp>(&mut program, name, interface)?;
                load_again(|| xdp.load()).map_err(|error| load_error(short(&chain(&error))))?;
            }
            Hook::Packet => packet::load(&mut program, interface)?,
        }
        Ok((program, maps, name, tags))
    }
}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loader")
    }
}

/// Bits of the program's configuration word and kinds of port; see `bpf/maps.h`.
const TAKE_UNKNOWN_ESP: u32 = 1;
const TAKE_UDP_FRAGMENTS: u32 = 2;
const WATCHDOG: u32 = 4;
const OPEN: u32 = 8;
const TAKE_SEGMENT_ERRORS: u32 = 16;
const TAKE_GRE: u32 = 32;
const TAKE_L2TP: u32 = 64;
const PORT_IKE: u8 = 1;
const PORT_NATT: u8 = 2;
const PORT_OVERLAY: u8 = 3;
