//! VLAN tags that a driver takes out of frames, put back into what AF_XDP sockets get.
//!
//! The program is `bpf/tags.bpf.c`, on the maps of the plain one. aya can load neither programs that call
//! functions of the kernel nor such that are bound to a device; so its parser (`aya-obj`) makes the instructions,
//! and they are loaded here. Whatever stands in the way, the plain program takes its place.

mod btf;
mod kfunc;
mod syscall;

use core::fmt;
use std::collections::HashSet;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use aya::Ebpf;
use aya::maps::Map;
use aya_obj::Object;

use crate::again::call_again;
use crate::config::{Hook, Mode, SteerConfig};
use crate::device::Device;
use crate::error::{SteerError, chain, short};

/// Treatment of VLAN tags that the driver takes out of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrippedTags {
    /// Tags stay in frames, or another hook reads them.
    None,
    /// They are put back.
    PutBack,
    /// They are lost, for this reason.
    Lost(String),
}

impl fmt::Display for StrippedTags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::PutBack => f.write_str("put back"),
            Self::Lost(why) => write!(f, "lost: {why}"),
        }
    }
}

/// The kernel's number of the function that tells tags, looked up when first needed.
#[derive(Default)]
pub(crate) struct Teller(OnceLock<Result<u32, String>>);

/// The program that puts tags back, where there is one.
pub(crate) struct Tags {
    /// The interface as it was when the program was loaded.
    ifindex: Option<u32>,
    fate: StrippedTags,
    program: Option<OwnedFd>,
    /// While it is attached.
    link: Option<OwnedFd>,
}

impl Tags {
    /// Loads it if the interface's driver takes tags out, and tells them.
    pub(crate) fn load(
        interface: &str,
        config: &SteerConfig,
        maps: &Ebpf,
        teller: &Teller,
    ) -> Self {
        let device = Device::look(interface).ok();
        let ifindex = device.as_ref().map(|device| device.ifindex);
        let mut tags = Self { ifindex, fate: StrippedTags::None, program: None, link: None };
        let Some(device) = device.filter(|d| config.hook == Hook::Xdp && d.strips_vlan_tags())
        else {
            return tags;
        };
        let loaded = match (config.mode, device.tells_vlan_tags) {
            (Mode::Generic, _) => Err(GENERIC.to_owned()),
            (_, false) => Err(format!("the driver {} does not tell them", device.driver)),
            (_, true) => load(maps, device.ifindex, config.frags, teller)
                .map_err(|why| format!("the program that puts them back was not loaded: {why}")),
        };
        (tags.program, tags.fate) = match loaded {
            Ok(program) => (Some(program), StrippedTags::PutBack),
            Err(why) => (None, StrippedTags::Lost(why)),
        };
        tags
    }

    /// True if it was loaded, and can be attached.
    pub(crate) const fn is_loaded(&self) -> bool {
        self.program.is_some()
    }

    pub(crate) const fn ifindex(&self) -> Option<u32> {
        self.ifindex
    }

    pub(crate) const fn fate(&self) -> &StrippedTags {
        &self.fate
    }

    /// Attaches it, in native mode. False where the plain program is to be attached instead.
    ///
    /// # Errors
    ///
    /// [`SteerError::Foreign`], which the plain program would meet too.
    pub(crate) fn attach(&mut self, interface: &str, mode: Mode) -> Result<bool, SteerError> {
        let (Some(program), Some(ifindex)) = (&self.program, self.ifindex) else {
            return Ok(false);
        };
        let why = match mode {
            Mode::Generic => GENERIC.to_owned(),
            Mode::Auto | Mode::Native => match syscall::attach(program.as_fd(), ifindex) {
                Ok(link) => {
                    self.link = Some(link);
                    return Ok(true);
                }
                Err(e) if matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) => {
                    return Err(SteerError::Foreign { interface: interface.to_owned() });
                }
                Err(e) => format!("the program that puts them back was not attached: {e}"),
            },
        };
        self.program = None;
        self.fate = StrippedTags::Lost(why);
        Ok(false)
    }
}

/// Loads the program for one device, on the maps of the plain one.
fn load(maps: &Ebpf, ifindex: u32, frags: bool, teller: &Teller) -> Result<OwnedFd, String> {
    let number = teller.0.get_or_init(kfunc::rx_vlan_tag).clone()?;
    let mut object = Object::parse(&crate::TAGS_OBJECT.0).map_err(|error| chain(&error))?;
    let sections: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let named = object.maps.clone();
    let mut fds = Vec::new();
    for (name, map) in &named {
        let fd = maps.map(name).and_then(map_fd).ok_or_else(|| format!("no map {name}"))?;
        fds.push((name.as_str(), fd, map));
    }
    object.relocate_maps(fds.into_iter(), &sections).map_err(|error| chain(&error))?;
    let name = if frags { "tags_frags" } else { "tags" };
    let program = object.programs.get(name).ok_or_else(|| format!("no program {name}"))?;
    let function = object.functions.get_mut(&program.function_key());
    let instructions = &mut function.ok_or_else(|| format!("no function {name}"))?.instructions;
    kfunc::fill_in(instructions, number);
    let load = |log: &mut [u8]| syscall::load(instructions, &program.license, ifindex, frags, log);
    call_again(|| load(&mut [])).map_err(|error| {
        // Once more, as the verifier says why only where it is asked to.
        let mut log = vec![0; LOG_LEN];
        let _ = load(&mut log);
        let log = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or(&[]));
        match log.trim() {
            "" => error.to_string(),
            log => short(&format!("{error}; Verifier output: {log}")),
        }
    })
}

/// The descriptor of a map of one of the kinds that the program has.
fn map_fd(map: &Map) -> Option<RawFd> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LpmTrie(data)
        | Map::PerCpuArray(data)
        | Map::XskMap(data) => Some(data.fd().as_fd().as_raw_fd()),
        _ => None,
    }
}

const GENERIC: &str = "in generic mode no program is told them";

/// Enough for the verifier's last words: before Linux 6.4 its first ones are kept.
const LOG_LEN: usize = 1 << 20;
