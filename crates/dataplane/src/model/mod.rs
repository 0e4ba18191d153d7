//! Nouns: what several parts of the data path name. No part of it is named here.

mod action;
mod between;
mod counter;
mod draft;
mod explanation;
mod handed;
mod hint;
mod ingress;
mod meta;
mod newcomers;
mod next_hop;
mod origin;
mod outers;
mod places;
mod prefetch;
mod reach;
pub mod slots;
mod step;
mod time;
mod turn;

pub(crate) use action::{
    Action, Aggregate, Bfd, BundleSlot, Decapsulate, Eliminate, Encapsulate, Forward, LinuxWay,
    LookSlot, Measure, Offload, Other, RateSlot, Replicate, Seal, StepTo, ToApplication,
    TranslationSlot, Wrap, ip_len,
};
pub(crate) use between::{Between, Made, RefusedStep, SteppedScratch};
pub use counter::Counter;
pub(crate) use counter::named_counters;
pub(crate) use draft::{Draft, FirstPorts, Gather, RateLimit, SealAll, Translation};
pub use explanation::{Came, Explanation, Fate, Probe};
pub(crate) use handed::{Again, Arrived, Handed, Judging, Left, Parcel, Payload};
pub(crate) use hint::FlowHint;
pub(crate) use ingress::{Ingress, Key};
pub(crate) use meta::{Meta, Metas, Source};
pub(crate) use newcomers::{Backlog, Newcomers};
pub(crate) use next_hop::{Adjacency, NextHop, Towards};
pub(crate) use origin::Origin;
pub(crate) use outers::Outers;
pub(crate) use places::{
    FIRST_OVERLAYS, FIRST_OVERLAYS_SLOT, FIRST_SEGMENTS_SLOT, INSIDE, KEEPS_DEI, LOOPBACK,
    TAILROOM, is_far_end, is_function, is_headend, keeping_dei, overlay_of, was_inside,
};
pub use places::{FIRST_SEGMENTS, FIRST_VLAN_SLOT, MAX_OVERLAYS, MAX_SEGMENT_ROUTES, PortKind};
pub(crate) use prefetch::{AGAIN, SOON, prefetch_headers};
pub(crate) use reach::{DEVICES_HOME, Reach};
pub(crate) use step::Notes;
pub use step::{NatSays, PathBy, PolicySays, Step, Way};
pub(crate) use time::Clock;
pub use time::Now;
pub(crate) use turn::{Turn, TurnHolder};
