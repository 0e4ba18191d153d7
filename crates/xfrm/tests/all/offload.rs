//! Requests for an offload device (`XFRMA_OFFLOAD_DEV`): what Linux says to them, and what a dump tells.

use crate::common::{Lab, errno, gcm_sa, policy, policy_info, sa_info, template, text};
use xfrm::codec::{Attributes, Field, Header, Offload, PolicyInfo, SaInfo, attr, kind};

/// Further attributes of a request.
type More = &'static [(u16, &'static [u8])];

const INBOUND: u8 = 2;
const PACKET: u8 = 4;

/// Adds an SA for a device, with further attributes.
fn add(lab: &mut Lab, spi: u32, flags: u8, more: More) -> (i32, Option<String>) {
    let mut w = gcm_sa(kind::NEWSA, &SaInfo { replay_window: 0, ..sa_info(spi) });
    w.field(attr::OFFLOAD_DEV, &Offload { ifindex: 3, flags, ..Offload::default() });
    for (kind, value) in more {
        w.attribute(*kind, value);
    }
    let out = lab.send(&w.finish());
    (errno(&out), text(&out))
}

/// The device that each record tells, in the order of addition.
fn told(lab: &Lab) -> Vec<Option<(i32, u8)>> {
    told_by(lab, kind::NEWSA, SaInfo::LEN)
}

fn told_by(lab: &Lab, kind: u16, fixed_len: usize) -> Vec<Option<(i32, u8)>> {
    let records = lab.db.records().filter_map(|change| change.record);
    let all = records.filter(|record| u16::from_ne_bytes([record[4], record[5]]) == kind);
    all.map(|record| {
        let attributes = Attributes::parse(&record[Header::LEN + fixed_len..]).unwrap();
        let offload = attributes.value::<Offload>(attr::OFFLOAD_DEV);
        offload.map(|offload| (offload.ifindex, offload.flags))
    })
    .collect()
}

#[test]
fn an_sa_that_a_device_has_tells_so() {
    let mut lab = Lab::new();
    lab.db.backend_mut().has_device = true;
    assert_eq!(add(&mut lab, 1, 0, &[]).0, 0);
    assert_eq!(add(&mut lab, 2, INBOUND, &[]).0, 0);
    // Linux does not tell the flag for IPv6 again.
    assert_eq!(add(&mut lab, 3, INBOUND | 1, &[(attr::SA_DIR, &[1])]).0, 0);
    assert_eq!(told(&lab), [Some((3, 0)), Some((3, INBOUND)), Some((3, INBOUND))]);
}

#[test]
fn an_sa_that_stays_in_software_tells_of_no_device() {
    let mut lab = Lab::new();
    assert_eq!(add(&mut lab, 1, 0, &[]).0, 0);
    assert_eq!(told(&lab), [None]);
}

#[test]
fn requests_that_cannot_be_are_refused_in_linux_s_words() {
    let cases: [(u8, More, &str); 6] = [
        (PACKET | 8, &[], "unrecognized flags in the offload request"),
        (8, &[], "unrecognized flags in the offload request"),
        (0, &[(attr::SA_DIR, &[1])], "mismatched SA and offload direction"),
        (INBOUND, &[(attr::SA_DIR, &[2])], "mismatched SA and offload direction"),
        (0, &[(attr::TFCPAD, &[64, 0, 0, 0])], "TFC padding can't be offloaded"),
        (INBOUND, &[(attr::IF_ID, &[7, 0, 0, 0])], "interface id is not supported"),
    ];
    for has_device in [false, true] {
        let mut lab = Lab::new();
        lab.db.backend_mut().has_device = has_device;
        for (flags, more, words) in cases {
            let (errno, text) = add(&mut lab, 1, flags, more);
            assert_eq!(errno, libc::EINVAL, "{words}");
            assert!(text.is_some_and(|text| text.contains(words)), "{words}");
            assert_eq!(lab.db.sa_count(), 0);
        }
    }
}

#[test]
fn packet_offload_is_told_and_never_falls_back() {
    let mut lab = Lab::new();
    let (refused, text) = add(&mut lab, 1, PACKET, &[]);
    assert_eq!((refused, text.as_deref()), (libc::EINVAL, Some("no packet offload")));
    assert_eq!(lab.db.sa_count(), 0);
    lab.db.backend_mut().has_device = true;
    assert_eq!(add(&mut lab, 1, PACKET, &[]).0, 0);
    assert_eq!(add(&mut lab, 2, PACKET | INBOUND, &[]).0, 0);
    assert_eq!(told(&lab), [Some((3, PACKET)), Some((3, PACKET | INBOUND))]);
}

#[test]
fn policies_are_for_packet_offload_or_for_software() {
    let mut lab = Lab::new();
    let add = |lab: &mut Lab, dir, flags| {
        let mut w = policy(kind::NEWPOLICY, &policy_info(dir), &[template()]);
        w.field(attr::OFFLOAD_DEV, &Offload { ifindex: 3, flags, ..Offload::default() });
        let out = lab.send(&w.finish());
        (errno(&out), text(&out))
    };
    for flags in [0, INBOUND, PACKET | INBOUND] {
        let (errno, text) = add(&mut lab, 1, flags);
        assert_eq!(errno, libc::EINVAL);
        assert!(text.is_some_and(|text| text.contains("unrecognized flags")));
    }
    assert_eq!(add(&mut lab, 1, PACKET), (libc::EINVAL, Some("no packet offload".into())));
    assert!(lab.db.backend().policies.is_empty());
    lab.db.backend_mut().has_device = true;
    assert_eq!(add(&mut lab, 1, PACKET).0, 0);
    lab.ok(&policy(kind::NEWPOLICY, &policy_info(0), &[template()]).finish());
    let told = told_by(&lab, kind::NEWPOLICY, PolicyInfo::LEN);
    assert_eq!(told, [Some((3, PACKET)), None]);
}
