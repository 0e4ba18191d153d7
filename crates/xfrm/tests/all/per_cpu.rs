//! SAs of a CPU (RFC 9611): `XFRMA_SA_PCPU`, `XFRM_POLICY_CPU_ACQUIRE`, and acquires for a CPU.

use crate::common::*;
use xfrm::codec::{Acquire, PolicyId, PolicyInfo, SaInfo, SpiInfo, attr, flag, kind};
use xfrm::{Acquired, Database, Flow, Group, Output, Settings};

/// `XFRM_SA_DIR_IN` and `OUT`.
const DIRECTIONS: [u8; 2] = [1, 2];

const CPU_ACQUIRE: u8 = 4;

/// An SA of a direction and a CPU.
fn sa_of(kind: u16, spi: u32, dir: u8, cpu: u32, seq: u32) -> xfrm::codec::Message {
    let info = SaInfo { replay_window: 0, seq, ..sa_info(spi) };
    let mut w = gcm_sa(kind, &info);
    w.attribute(attr::SA_DIR, &[dir]);
    w.field(attr::SA_PCPU, &cpu);
    w.finish()
}

fn lab() -> Lab {
    let mut lab = Lab::new();
    let settings = Settings { cpus: 4, ..Settings::default() };
    lab.db = Database::new(Recorder::default(), settings);
    lab
}

#[test]
fn an_sa_keeps_its_cpu_and_the_data_path_hears_of_it_outbound() {
    let mut lab = lab();
    for dir in DIRECTIONS {
        let spi = u32::from(dir);
        let out = lab.ok(&sa_of(kind::NEWSA, spi, dir, 3, 0));
        let (group, told) = events(&out)[0];
        assert_eq!(group, Group::Sa);
        assert_eq!(attribute::<SaInfo>(told, attr::SA_PCPU), Some(3u32.to_ne_bytes().into()));
        let (config, ..) = &lab.db.backend().sas[&path_id(spi)];
        assert_eq!(config.cpu, (dir == 2).then_some(3));
        let out = lab.ok(&request(kind::GETSA, &sa_id(spi)).finish());
        let answer = replies(&out).next().unwrap();
        assert_eq!(attribute::<SaInfo>(answer, attr::SA_PCPU), Some(3u32.to_ne_bytes().into()));
        assert_eq!(attribute::<SaInfo>(answer, attr::SA_DIR), Some(vec![dir]));
    }
    // The journal has all of it.
    let records: Vec<_> = lab.db.records().filter_map(|change| change.record).collect();
    let mut other = Lab::new();
    for record in records {
        other.db.restore(&record, other.now).unwrap();
    }
    assert_eq!(other.db.backend().sas[&path_id(2)].0.cpu, Some(3));
}

#[test]
fn a_cpu_needs_a_direction_and_has_to_exist() {
    let mut lab = lab();
    let out = lab.send(&sa_of(kind::NEWSA, 1, 2, 4, 0));
    assert_eq!(errno(&out), libc::ERANGE);
    assert!(text(&out).unwrap().contains("beyond"));
    let mut w = gcm_sa(kind::NEWSA, &sa_info(1));
    let out = lab.send(&w.field(attr::SA_PCPU, &0u32).take());
    assert_eq!(errno(&out), libc::EINVAL);
    assert!(text(&out).unwrap().contains("direction"));
    let mut w = alloc_spi(500, 600);
    assert_eq!(lab.errno(&w.field(attr::SA_PCPU, &4u32).take()), libc::EINVAL);
    assert_eq!(lab.db.sa_count(), 0);
    let mut w = alloc_spi(500, 600);
    lab.ok(&w.field(attr::SA_PCPU, &3u32).take());
}

/// Reservations of different CPUs are different ones, though all else is the same.
#[test]
fn each_cpu_has_its_own_reservation() {
    let mut lab = lab();
    for cpu in [0u32, 1] {
        let mut w = alloc_spi(500, 600);
        w.attribute(attr::SA_DIR, &[1]);
        lab.ok(&w.field(attr::SA_PCPU, &cpu).take());
    }
    assert_eq!(lab.db.sa_count(), 2);
}

fn policy_of_cpus() -> PolicyInfo {
    PolicyInfo { flags: CPU_ACQUIRE, ..policy_info(1) }
}

#[test]
fn the_policy_s_flag_reaches_the_data_path_and_comes_back() {
    let mut lab = lab();
    lab.ok(&policy(kind::NEWPOLICY, &policy_of_cpus(), &[template()]).finish());
    let config = lab.db.backend().policies.values().next().unwrap();
    assert!(config.flags.per_cpu);
    let id = PolicyId { dir: 1, index: config.index, ..PolicyId::default() };
    let out = lab.ok(&request(kind::GETPOLICY, &id).finish());
    assert_eq!(fixed::<PolicyInfo>(replies(&out).next().unwrap()).flags, CPU_ACQUIRE);
    lab.ok(&policy(kind::UPDPOLICY, &policy_info(1), &[template()]).finish());
    assert!(!lab.db.backend().policies.values().next().unwrap().flags.per_cpu);
}

fn acquire(lab: &mut Lab, cpu: Option<u32>) -> (Acquired, Vec<Output>) {
    let flow = Flow {
        src: ip("10.2.0.9"),
        dst: ip("10.1.0.9"),
        protocol: 17,
        src_port: 1,
        dst_port: 2,
        ifindex: 0,
    };
    let index = *lab.db.backend().policies.keys().next().unwrap();
    let mut out = Vec::new();
    (lab.db.acquire(index, (0, cpu), &flow, true, lab.now, &mut out), out)
}

#[test]
fn owners_are_asked_once_for_each_cpu() {
    let mut lab = lab();
    lab.ok(&policy(kind::NEWPOLICY, &policy_of_cpus(), &[template()]).finish());
    for cpu in [None, Some(0), Some(3)] {
        let (became, out) = acquire(&mut lab, cpu);
        assert_eq!(became, Acquired::Asked);
        let (group, message) = events(&out)[0];
        assert_eq!((group, header(message).kind), (Group::Acquire, kind::ACQUIRE));
        let told = attribute::<Acquire>(message, attr::SA_PCPU);
        assert_eq!(told, cpu.map(|cpu| cpu.to_ne_bytes().to_vec()));
        assert_eq!(acquire(&mut lab, cpu).0, Acquired::Pending);
    }
    // The dump shows who waits, as Linux does: outbound, with its CPU.
    let dump = lab.dump(
        &xfrm::codec::MessageWriter::new(kind::GETSA, flag::REQUEST | flag::DUMP, 1, 0).finish(),
    );
    let waits = |(_, m): &(_, Vec<u8>)| {
        (attribute::<SaInfo>(m, attr::SA_DIR), attribute::<SaInfo>(m, attr::SA_PCPU))
    };
    let waiting: Vec<_> = entries(&dump).iter().map(waits).collect();
    let cpu = |cpu: u32| (Some(vec![2]), Some(cpu.to_ne_bytes().to_vec()));
    assert_eq!(waiting, [cpu(3), cpu(0), (Some(vec![2]), None)]);
}

#[test]
fn the_answer_for_a_cpu_ends_its_wait_alone() {
    for by_seq in [true, false] {
        let mut lab = lab();
        lab.ok(&policy(kind::NEWPOLICY, &policy_of_cpus(), &[template()]).finish());
        acquire(&mut lab, Some(0));
        acquire(&mut lab, Some(1));
        let seq = if by_seq { 2 } else { 0 };
        lab.ok(&sa_of(kind::NEWSA, 0x100, 2, 1, seq));
        assert_eq!(acquire(&mut lab, Some(0)).0, Acquired::Pending);
        assert_eq!(acquire(&mut lab, Some(1)).0, Acquired::Asked, "nothing waits any more");
    }
}

/// Other SAs protect meanwhile, so the flows have plans: these are to ask again when nobody answered.
#[test]
fn flows_may_ask_again_when_nobody_has_answered() {
    let mut lab = lab();
    lab.ok(&policy(kind::NEWPOLICY, &policy_of_cpus(), &[template()]).finish());
    let index = *lab.db.backend().policies.keys().next().unwrap();
    acquire(&mut lab, None);
    acquire(&mut lab, Some(0));
    acquire(&mut lab, Some(1));
    lab.ok(&sa_of(kind::NEWSA, 0x100, 2, 1, 3));
    lab.pass(Settings::default().acquire_timeout_s.into());
    assert_eq!(lab.db.backend().asked_again, [index], "for CPU 0 alone");
    assert_eq!(acquire(&mut lab, Some(0)).0, Acquired::Asked);
    // Flushed, and not: nobody is told.
    lab.ok(&request(kind::FLUSHSA, &0u32).finish());
    assert_eq!(lab.db.backend().asked_again, [index]);
}

#[test]
fn a_reservation_answers_the_acquire_of_its_cpu() {
    let mut lab = lab();
    lab.ok(&policy(kind::NEWPOLICY, &policy_of_cpus(), &[template()]).finish());
    acquire(&mut lab, Some(2));
    let info = SaInfo { seq: 1, ..sa_info(0) };
    let spi = SpiInfo { info, min: 500, max: 500 };
    let mut w = request(kind::ALLOCSPI, &spi);
    lab.ok(&w.field(attr::SA_PCPU, &2u32).take());
    assert_eq!(lab.db.sa_count(), 1);
    lab.ok(&sa_of(kind::UPDSA, 500, 2, 2, 1));
    assert_eq!((lab.db.sa_count(), lab.db.backend().sas.len()), (1, 1));
}
