//! The agreement of a test's two gateways: addresses, keys, SAs, policies, and ESP made by hand.

use std::net::IpAddr;
use std::sync::LazyLock;

use crypto::{AesKey, IcvLen, Job, JobStatus, Keys, Op, Provider, Suite};
use engine_openssl::OpensslProvider;
use esp::{LiveNumbers, Mode, Protocol, Sa, SaFlags, SaParams, UdpEncap};
use policy::{
    Action, Direction, Iptfs, Mark, PolicyConfig, PolicyFlags, Prefix, SaConfig, Selector,
    Template, VolumeLimits,
};
use wire::MacAddr;

pub const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

pub static PROVIDER: LazyLock<OpensslProvider> =
    LazyLock::new(|| OpensslProvider::new().expect("openssl"));

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("address")
}

pub fn keys(suite: Suite) -> Keys {
    Keys {
        cipher: (1..).take(suite.cipher_key_len_bytes()).collect(),
        salt: (101..).take(suite.salt_len_bytes()).collect(),
        auth: (51..).take(suite.auth_key_len_bytes()).collect(),
    }
}

/// Which of the two gateways; its number stands in all its addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    A = 1,
    B = 2,
}

impl Side {
    pub fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
    pub fn wan(self, v6: bool) -> IpAddr {
        let n = self as u8;
        if v6 { ip(&format!("2001:db8:f::{n}")) } else { ip(&format!("192.0.2.{n}")) }
    }
    /// A host behind the gateway; host 1 is the gateway itself.
    pub fn lan(self, v6: bool, host: u16) -> IpAddr {
        let n = self as u8;
        if v6 { ip(&format!("2001:db8:{n}::{host}")) } else { ip(&format!("10.{n}.0.{host}")) }
    }
    pub fn net(self, v6: bool) -> Prefix {
        Prefix { addr: self.lan(v6, 0), len: if v6 { 64 } else { 16 } }
    }
    pub fn mac(self, ifindex: u32) -> MacAddr {
        MacAddr([2, 0, 0, 0, self as u8, ifindex as u8])
    }
    pub fn host_mac(self, host: u16) -> MacAddr {
        MacAddr([2, 0, 1, 0, self as u8, host as u8])
    }
    /// SPI of the SA that this side sends by.
    pub fn spi(self) -> u32 {
        0x1000 + self as u32
    }
}

/// Protection of the traffic between the two networks.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub outer_v6: bool,
    pub mode: Mode,
    pub suite: Suite,
    pub encap: bool,
    pub esn: bool,
    pub replay_window: u32,
    pub flags: SaFlags,
    pub limits: VolumeLimits,
    pub iptfs: Iptfs,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            outer_v6: false,
            mode: Mode::Tunnel,
            suite: GCM,
            encap: false,
            esn: false,
            replay_window: 128,
            flags: SaFlags::default(),
            limits: VolumeLimits::NONE,
            iptfs: Iptfs::default(),
        }
    }
}

pub fn sa_params(spec: &Spec, from: Side) -> SaParams {
    SaParams {
        spi: from.spi(),
        src: from.wan(spec.outer_v6),
        dst: from.other().wan(spec.outer_v6),
        protocol: Protocol::Esp,
        mode: spec.mode,
        suite: spec.suite,
        encap: spec.encap.then_some(UdpEncap { src_port: 4500, dst_port: 4500 }),
        esn: spec.esn,
        replay_window: spec.replay_window,
        tfc_pad_len: 0,
        flags: spec.flags,
    }
}

pub fn sa_config(spec: &Spec, from: Side) -> SaConfig {
    SaConfig {
        params: sa_params(spec, from),
        mark: Mark::default(),
        if_id: 0,
        reqid: 1,
        selector: None,
        iptfs: (spec.mode == Mode::Iptfs).then(|| Box::new(spec.iptfs)),
        set_mark: Mark::default(),
        cpu: None,
        limits: spec.limits,
        added_s: 1,
        generation: 1,
    }
}

pub fn make_sa(params: &SaParams) -> Sa {
    make_sa_of(params, LiveNumbers::on_heap(params.replay_window))
}

/// One whose outbound numbers have a ceiling.
pub fn make_leased_sa(params: &SaParams, ceiling: u64) -> Sa {
    let live = LiveNumbers::on_heap_with_ceiling(params.replay_window, ceiling);
    make_sa_of(params, live).with_ceiling(true)
}

/// The salt of all SAs' IVs, so that packets can be foretold.
pub const IV_SALT: u64 = 0x5a17_0f1e_77ab_c0de;

/// One with these live numbers.
pub fn make_sa_of(params: &SaParams, live: LiveNumbers) -> Sa {
    let session = match params.suite {
        Suite::None => crypto::Session::none(),
        suite => PROVIDER.session(suite, &keys(suite)).expect("session"),
    };
    Sa::new(params.clone(), session, live).expect("sa").with_iv_salt(IV_SALT)
}

pub fn template(spec: &Spec, from: Side) -> Template {
    let unspecified = if spec.outer_v6 { ip("::") } else { ip("0.0.0.0") };
    let (src, dst) = match spec.mode {
        Mode::Tunnel | Mode::Iptfs => (from.wan(spec.outer_v6), from.other().wan(spec.outer_v6)),
        Mode::Transport => (unspecified, unspecified),
    };
    Template { src, dst, spi: 0, protocol: 50, mode: spec.mode, reqid: 1, optional: false }
}

pub fn policy(
    index: u32,
    direction: Direction,
    selector: Selector,
    templates: Vec<Template>,
) -> PolicyConfig {
    PolicyConfig {
        index,
        direction,
        selector,
        priority: 100,
        action: Action::Allow,
        flags: PolicyFlags::default(),
        templates,
        mark: Mark::default(),
        if_id: 0,
    }
}

/// Builds the text that a tunnel SA would encrypt: payload, padding, trailer.
pub fn esp_text(payload: &[u8], next_header: u8) -> Vec<u8> {
    let mut text = payload.to_vec();
    let pad = (payload.len() + 2).wrapping_neg() & 3;
    text.extend((1..).take(pad));
    text.extend([pad as u8, next_header]);
    text
}

/// An ESP packet over IPv4 with this text, whatever it is, under the keys of [`GCM`].
pub fn craft_esp(from: Side, number: u32, text: &[u8], traffic_class: u8) -> Vec<u8> {
    craft_esp_for(from.spi(), from, number, text, traffic_class)
}

/// The same with another SPI.
pub fn craft_esp_for(spi: u32, from: Side, number: u32, text: &[u8], traffic_class: u8) -> Vec<u8> {
    let session = PROVIDER.session(GCM, &keys(GCM)).expect("session");
    let mut esp = [&spi.to_be_bytes()[..], &number.to_be_bytes()].concat();
    esp.extend(u64::from(number).to_be_bytes());
    esp.extend(text);
    esp.extend([0; 16]);
    let mut jobs = [Job::esp(&session, Op::Seal, &mut esp, None)];
    PROVIDER.engine().expect("engine").run(&mut jobs);
    assert_eq!(jobs[0].status, JobStatus::Done);
    let outer = crate::packets::Ip {
        protocol: 50,
        traffic_class,
        ..crate::packets::Ip::new(from.wan(false), from.other().wan(false))
    };
    outer.with(&esp)
}
