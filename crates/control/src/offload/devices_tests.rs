use crypto::{AesKey, IcvLen, Job, JobStatus, Op, Provider, Suite};
use engine_openssl::OpensslProvider;
use esp::LiveNumbers;
use policy::Databases;

use super::*;
use crate::sources::testing::{HERE, THERE, config};

const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };

/// A device at the loopback interface, whose index is 1 in each namespace.
fn devices() -> Devices {
    let config = toml::from_str("kind = \"nic-model\"\nport = \"lo\"").unwrap();
    Devices::new(&BTreeMap::from([("nic0".to_owned(), config)]))
}

fn keys() -> Keys {
    Keys { cipher: vec![7; 16], salt: vec![1; 4], auth: Vec::new() }
}

fn sa(spi: u32) -> SaConfig {
    let mut config = config(spi, (HERE, THERE), 1);
    config.params.suite = GCM;
    config
}

fn wanted(ifindex: i32) -> Offload {
    Offload { ifindex, ..Offload::default() }
}

#[test]
fn an_sa_of_another_interface_stays_in_software() {
    let mut devices = devices();
    let software = OpensslProvider::new().unwrap().session(GCM, &keys()).unwrap();
    let (session, is_offloaded) = devices.put(&sa(1), &keys(), &wanted(77), software);
    assert_eq!((device_of(&session), is_offloaded), (None, false));
}

#[test]
fn devices_have_esp_alone() {
    let devices = devices();
    let ah = |spi| {
        let mut config = sa(spi);
        config.params.protocol = Protocol::Ah;
        config
    };
    for flags in [0, c::OFFLOAD_PACKET] {
        let asked = |ifindex| Offload { flags, ..wanted(ifindex) };
        assert_eq!(devices.check_protocol(&sa(1), &asked(1)), Ok(()));
        let refused = devices.check_protocol(&ah(1), &asked(1)).unwrap_err();
        assert_eq!(refused.errno, errno::EINVAL);
        // As on Linux: an interface without a device has nothing against it.
        assert_eq!(devices.check_protocol(&ah(1), &asked(77)), Ok(()));
    }
}

#[test]
fn what_does_not_fit_stays_in_software_and_comes_in_when_there_is_room() {
    let mut devices = devices();
    let provider = OpensslProvider::new().unwrap();
    let software = provider.session(GCM, &keys()).unwrap();
    let put =
        |devices: &mut Devices, spi| devices.put(&sa(spi), &keys(), &wanted(1), software.clone()).1;
    assert!((1..=1024).all(|spi| put(&mut devices, spi)));
    assert!(!put(&mut devices, 1025));
    assert_eq!(devices.rows()[0].tables[0].used, 1024);
    devices.remove(&sa(3).id());
    assert!(put(&mut devices, 1025));
    let mut esn = sa(5000);
    esn.params.esn = true;
    assert!(!devices.put(&esn, &keys(), &wanted(1), software.clone()).1);
}

#[test]
fn packets_are_the_same_by_device_by_software_and_after_removal() {
    let mut devices = devices();
    let provider = OpensslProvider::new().unwrap();
    let software = provider.session(GCM, &keys()).unwrap();
    let (offloaded, _) = devices.put(&sa(9), &keys(), &wanted(1), software.clone());
    assert_eq!(device_of(&offloaded), Some("nic0"));
    let mut engine = devices.engine(provider.engine().unwrap()).unwrap();
    // Of both kinds, in one run, and more than a burst.
    let mut run = |sessions: [&Session; 2]| {
        let mut packets = vec![vec![5_u8; 96]; 150];
        let mut jobs: Vec<Job<'_>> = packets
            .iter_mut()
            .enumerate()
            .map(|(n, packet)| Job::esp(sessions[n / 3 % 2], Op::Seal, packet, None))
            .collect();
        engine.run(&mut jobs);
        assert!(jobs.iter().all(|job| job.status == JobStatus::Done));
        packets
    };
    let by_software = run([&software, &software]);
    assert_eq!(run([&offloaded, &software]), by_software);
    let row = devices.rows().remove(0);
    assert_eq!((row.sealed, row.in_software), (75, 0));
    devices.reset("nic0").unwrap();
    assert_eq!(run([&offloaded, &software]), by_software);
    devices.remove(&sa(9).id());
    assert_eq!(run([&offloaded, &software]), by_software);
    let row = devices.rows().remove(0);
    assert_eq!((row.sealed, row.in_software, row.resets), (150, 75, 1));
    assert_eq!(devices.reset("nic1"), Err("no device nic1".into()));
}

#[test]
fn a_wrong_icv_is_a_wrong_icv_by_softwares_word_too() {
    let mut devices = devices();
    let provider = OpensslProvider::new().unwrap();
    let (session, mut engine, sealed) = inbound(&mut devices, &provider);
    let mut open = |packet: &mut Vec<u8>| {
        let mut jobs = [Job::esp(&session, Op::Open, packet, None)];
        engine.run(&mut jobs);
        jobs[0].status
    };
    let mut forged = sealed.clone();
    forged[40] ^= 1;
    assert_eq!(open(&mut forged), JobStatus::BadIcv);
    assert!(forged[16..80] != [5; 64], "no plaintext is left");
    let mut packet = sealed.clone();
    assert_eq!(open(&mut packet), JobStatus::Done);
    assert_eq!(packet[16..80], [5; 64]);
    let row = devices.rows().remove(0);
    assert_eq!((row.opened, row.wrong_icv, row.in_software, row.compared), (1, 1, 0, 2));
    assert!(devices.fallen().is_empty());
}

/// An inbound SA in the device, an engine, and a packet of it.
fn inbound(
    devices: &mut Devices,
    provider: &OpensslProvider,
) -> (Session, Box<dyn Engine>, Vec<u8>) {
    let software = provider.session(GCM, &keys()).unwrap();
    let inbound = Offload { flags: c::OFFLOAD_INBOUND, ..wanted(1) };
    let (session, _) = devices.put(&sa(9), &keys(), &inbound, software.clone());
    let mut engine = devices.engine(provider.engine().unwrap()).unwrap();
    let mut packet = vec![5_u8; 96];
    packet[..4].copy_from_slice(&9_u32.to_be_bytes());
    engine.run(&mut [Job::esp(&software, Op::Seal, &mut packet, None)]);
    (session, engine, packet)
}

/// Seals so many packets, one after the other, and says how many were not as software makes them.
fn wrong_of(engine: &mut dyn Engine, sessions: [&Session; 2], count: usize) -> usize {
    let seal = |engine: &mut dyn Engine, session, n: usize| {
        let mut packet = vec![(n % 64) as u8; 96];
        let mut jobs = [Job::esp(session, Op::Seal, &mut packet, None)];
        engine.run(&mut jobs);
        assert_eq!(jobs[0].status, JobStatus::Done);
        packet
    };
    let [session, software] = sessions;
    (0..count).filter(|n| seal(engine, session, *n) != seal(engine, software, *n)).count()
}

#[test]
fn a_device_that_seals_wrongly_is_noticed_and_left() {
    let provider = OpensslProvider::new().unwrap();
    let software = provider.session(GCM, &keys()).unwrap();
    // Packets before the fault, and how many wrong ones there may be then.
    for (fault, before, most) in [
        ("hang", 20, 0),
        ("in-clear", 20, 0),
        ("wrong-icv", 0, 0),
        ("wrong-cipher", 7, 0),
        ("wrong-icv", 100, 255),
        ("wrong-cipher", 100, 255),
    ] {
        let mut devices = devices();
        let (session, _) = devices.put(&sa(9), &keys(), &wanted(1), software.clone());
        let mut engine = devices.engine(provider.engine().unwrap()).unwrap();
        assert_eq!(wrong_of(&mut *engine, [&session, &software], before), 0);
        assert!(devices.fallen().is_empty());
        devices.set_fault("nic0", fault).unwrap();
        let wrong = wrong_of(&mut *engine, [&session, &software], 400);
        assert!(wrong <= most && (most == 0 || wrong > 0), "{fault}: {wrong} wrong packets");
        assert_eq!(devices.fallen(), [sa(9).id()], "{fault}");
        devices.take_out(&sa(9).id());
        let row = devices.rows().remove(0);
        assert!(row.state.as_str().starts_with("down: "), "{row:?}");
        assert!(devices.warnings().any(|warning| warning.contains("device nic0 is down")));
        assert!(row.in_software > 100, "{row:?}");
        assert_eq!(row.moves.last().unwrap().to.as_deref(), Some("software"), "{fault}");
        // Workers that have the old session yet are served.
        assert_eq!(wrong_of(&mut *engine, [&session, &software], 3), 0);
    }
    assert!(devices().set_fault("nic0", "smoke").unwrap_err().contains("hang, wrong-icv"));
}

#[test]
fn a_device_that_opens_wrongly_is_noticed_and_nothing_is_lost() {
    let provider = OpensslProvider::new().unwrap();
    for fault in ["hang", "false-alarm", "wrong-text"] {
        let mut devices = devices();
        let (session, mut engine, sealed) = inbound(&mut devices, &provider);
        devices.set_fault("nic0", fault).unwrap();
        for _ in 0..50 {
            let mut packet = sealed.clone();
            let mut jobs = [Job::esp(&session, Op::Open, &mut packet, None)];
            engine.run(&mut jobs);
            assert_eq!(jobs[0].status, JobStatus::Done, "{fault}");
            assert_eq!(packet[16..80], [5; 64], "{fault}");
        }
        assert_eq!(devices.fallen(), [sa(9).id()], "{fault}");
    }
}

#[test]
fn an_sa_comes_back_when_the_known_answer_is_right_again() {
    let mut devices = devices();
    let provider = OpensslProvider::new().unwrap();
    let software = provider.session(GCM, &keys()).unwrap();
    let put =
        |devices: &mut Devices, spi| devices.put(&sa(spi), &keys(), &wanted(1), software.clone());
    put(&mut devices, 9);
    devices.engine(provider.engine().unwrap()).unwrap();
    devices.set_fault("nic0", "false-alarm").unwrap();
    devices.now_ms += 2000;
    // The known answer is asked for again, and is wrong: the SA waits in software.
    let (session, is_its) = put(&mut devices, 10);
    assert_eq!((device_of(&session), is_its), (None, true));
    for id in devices.fallen() {
        devices.take_out(&id);
    }
    assert_eq!(devices.rows()[0].tables[0].used, 0);
    let down = |news: &Occurrence| matches!(news, Occurrence::DeviceDown { why, .. } if why.contains("a known packet"));
    assert!(devices.news().iter().all(down) && devices.news().is_empty());
    assert!(devices.restored().is_empty(), "not before the pause is over");
    devices.set_fault("nic0", "none").unwrap();
    devices.now_ms += 2000;
    let mut restored = devices.restored();
    restored.sort_by_key(|(id, _)| id.spi);
    let to = To::Device(0, SaDirection::Outbound);
    assert_eq!(restored, [(sa(9).id(), to), (sa(10).id(), to)]);
    for spi in [9, 10] {
        assert!(devices.is_asked(&sa(spi).id()));
        let to = (0, SaDirection::Outbound, true);
        let session = devices.put_in(to, &sa(spi), &keys(), &software).unwrap();
        assert_eq!(device_of(&session), Some("nic0"));
    }
    let row = devices.rows().remove(0);
    assert_eq!((row.state.as_str(), row.tables[0].used, row.resets), ("up", 2, 1));
    assert_eq!(devices.news(), [Occurrence::DeviceUp { device: "nic0".into() }]);
}

#[test]
fn who_asks_for_a_full_device_gets_the_place_of_one_that_came_by_itself() {
    let config = "kind = \"nic-model\"\nport = \"lo\"\nplacement = \"auto\"";
    let config = toml::from_str(config).unwrap();
    let mut devices = Devices::new(&BTreeMap::from([("nic0".to_owned(), config)]));
    let provider = OpensslProvider::new().unwrap();
    let software = provider.session(GCM, &keys()).unwrap();
    for spi in 1..=1024 {
        assert_eq!(devices.in_the_way(&wanted(1)), None);
        let to = (0, SaDirection::Outbound, spi != 7);
        devices.put_in(to, &sa(spi), &keys(), &software).unwrap();
    }
    assert_eq!(devices.in_the_way(&wanted(77)), None, "of another port");
    let inbound = Offload { flags: c::OFFLOAD_INBOUND, ..wanted(1) };
    assert_eq!(devices.in_the_way(&inbound), None, "there is room");
    assert_eq!(devices.in_the_way(&wanted(1)), Some(sa(7).id()));
    devices.take_out(&sa(7).id());
    assert!(devices.put(&sa(2000), &keys(), &wanted(1), software).1);
    assert_eq!(devices.in_the_way(&wanted(1)), None, "all have asked");
}

#[test]
fn of_two_devices_one_gets_the_busiest_and_the_other_the_next() {
    let config = "kind = \"nic-model\"\nport = \"lo\"\nplacement = \"auto\"\nmost_auto = 1";
    let config: DeviceConfig = toml::from_str(config).unwrap();
    let configs = ["nic0", "nic1"].map(|name| (name.to_owned(), config.clone()));
    let mut devices = Devices::new(&BTreeMap::from(configs));
    let provider = OpensslProvider::new().unwrap();
    let software = provider.session(GCM, &keys()).unwrap();
    let mut databases = Databases::new();
    // The numbers of the last one are not software's.
    for spi in 1..=4 {
        if spi != 4 {
            devices.added(sa(spi).id());
        }
        let esp = Sa::new(sa(spi).params, software.clone(), LiveNumbers::on_heap(32)).unwrap();
        databases.add_sa(sa(spi), esp).unwrap();
    }
    let entries: Vec<_> = databases.sas().collect();
    let outbound = |_: &SaConfig| Some(SaDirection::Outbound);
    assert_eq!(devices.round(entries.iter(), outbound), []);
    for entry in &entries {
        let packets = 1000 * u64::from(entry.config.params.spi);
        entry.esp.live().packets().store(packets, Relaxed);
    }
    assert_eq!(devices.round(entries.iter(), outbound), [], "not before it is time");
    devices.now_ms += 2000;
    let into = |lane| To::Device(lane, SaDirection::Outbound);
    let moves = devices.round(entries.iter(), outbound);
    assert_eq!(moves, [(sa(3).id(), into(0)), (sa(2).id(), into(1))]);
    for (id, lane) in [(3, 0), (2, 1)] {
        let to = (lane, SaDirection::Outbound, false);
        devices.put_in(to, &sa(id), &keys(), &software).unwrap();
    }
    devices.now_ms += 2000;
    assert_eq!(devices.round(entries.iter(), outbound), []);
    // Into another one: it is in one device at a time.
    devices.put_in((1, SaDirection::Outbound, true), &sa(3), &keys(), &software).unwrap();
    let used: Vec<_> = devices.rows().iter().map(|row| row.tables[0].used).collect();
    assert_eq!(used, [0, 2]);
}
