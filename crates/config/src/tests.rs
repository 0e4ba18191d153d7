//! The file as a whole.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("culvert.toml"))
}

#[test]
fn what_the_parser_does_not_say_is_said() {
    let wrong = |text: &str| parse(text).unwrap_err().to_string();
    assert!(wrong("[port]\ninterface = \"wan\"\n").contains("[[port]]"));
    assert!(wrong("[guard]\nprefixes = \"10.2.0.0/16\"\n").contains("write a list"));
    // A word that is no level would be taken for a part of the program, and silence all others.
    let level = |level: &str| parse(&format!("[log]\nlevel = {level:?}\n"));
    assert!(level("verbose").unwrap_err().to_string().contains("log.level = \"verbose\""));
    assert!(level("info,loud").is_err() && level("control=loud").is_err());
    for right in ["debug", "WARN", "off", "xfrm=debug,info", "control=trace"] {
        assert!(level(right).is_ok(), "{right}");
    }
}

#[test]
fn empty_is_valid() {
    let config = parse("").unwrap();
    assert_eq!(config.name, "default");
    assert!(config.guard.enabled);
}

#[test]
fn what_a_running_daemon_does_not_follow() {
    let rows: &[(&str, &[&str])] = &[
        ("", &[]),
        ("[[port]]\ninterface = \"wan\"\n[guard]\nenabled = false\n", &[]),
        ("name = \"gwa\"\n", &["name"]),
        ("[tun]\nmtu = 1400\n", &["tun.mtu"]),
        ("[[iptfs]]\nrate_kbit_s = 1\n", &["iptfs"]),
        ("[worker]\ncpus = 3\ncrypto_cpus = [1]\n", &[]),
        ("[worker]\ncpus = 3\nframes = 1024\n", &["worker.frames"]),
        ("[worker]\npoll = \"adaptive\"\n", &[]),
        ("[worker]\npoll = \"always\"\n", &["worker.poll"]),
        ("[path_mtu]\nclamp_mss = true\n", &[]),
        ("[kernel]\nfirewall = \"bypass\"\n", &["kernel.firewall"]),
        ("[crypto]\nengine = \"openssl\"\n", &["crypto.engine"]),
        ("[crypto]\nallow_weak = true\n", &["crypto.allow_weak"]),
        (
            "[[port]]\ninterface = \"wan\"\n[device.nic0]\nkind = \"nic-model\"\nport = \"wan\"\n",
            &["device"],
        ),
        ("[tunnel_headers]\ndf = \"set\"\n", &["tunnel_headers.df"]),
        ("[security]\nseccomp = false\n", &["security.seccomp"]),
        ("[log]\nlevel = \"debug\"\n", &["log.level"]),
        ("name = \"gwa\"\n[log]\nlevel = \"debug\"\n", &["name", "log.level"]),
    ];
    let running = parse("").unwrap();
    for (text, expected) in rows {
        assert_eq!(running.fixed_changes(&parse(text).unwrap()), *expected, "{text}");
    }
}

#[test]
fn full_example() {
    let config = parse(
        "name = \"gwa\"\n[[port]]\ninterface = \"wan\"\nmode = \"generic\"\nqueues = 2\n\
         [[port]]\ninterface = \"lan\"\n[tun]\nmtu = 1400\n[worker]\ncpu = 1\npoll = \"always\"\n\
         [guard]\nprefixes = [\"10.2.0.0/16\", \"2001:db8::/32\"]\n\
         [path_mtu]\nlearn = false\nlifetime_s = 60\nclamp_mss = true\n\
         [crypto]\nengine = \"openssl\"\n[log]\nlevel = \"debug\"\n",
    )
    .unwrap();
    assert_eq!(config.ports[0].mode, XdpMode::Generic);
    assert_eq!(config.ports[1].mode, XdpMode::Auto);
    assert_eq!(config.worker.poll, worker::PollMode::Always);
    assert_eq!(config.guard.prefixes.len(), 2);
    assert_eq!(config.crypto.engine, EngineChoice::Openssl);
    assert!(!config.crypto.allow_weak);
    let path_mtu = PathMtuConfig { learn: false, lifetime_s: 60, clamp_mss: true };
    assert_eq!(config.path_mtu, path_mtu);
    assert!(!parse("").unwrap().path_mtu.clamp_mss, "off unless asked for");
}

/// A memif port with these keys.
fn memif(keys: &str) -> String {
    format!("[[port]]\ninterface = \"a\"\nkind = \"memif\"\n{keys}")
}

#[test]
fn ports_are_sorted_by_their_kind() {
    let text = memif("socket = \"/s\"\nmac = \"02:00:00:00:00:0f\"");
    let config = parse(&format!("{text}\n[[port]]\ninterface = \"wan\"")).unwrap();
    let (port, memif) = (&config.ports[0], &config.memifs[0]);
    assert_eq!((port.interface.as_str(), memif.interface.as_str()), ("wan", "a"));
    assert_eq!((memif.id, memif.queues, memif.ring_size, memif.mtu), (0, 1, 1024, 1500));
    assert_eq!((memif.role, memif.mac), (MemifRole::Server, Some([2, 0, 0, 0, 0, 15])));
    assert!(!memif.unsealed && memif.secret.is_none());
    assert_eq!(memif.memory_bytes(), 16 << 20, "at least");
    assert!(config.port_names().contains("a") && config.port_names().contains("wan"));
    let kind = |kind: &str| {
        let config = parse(&format!("[[port]]\ninterface = \"a\"\nkind = \"{kind}\"")).unwrap();
        config.ports[0].kind
    };
    let kinds = ["xdp", "interface", "packet", "auto"].map(kind);
    assert_eq!(kinds, [Sockets::Xdp, Sockets::Xdp, Sockets::Packet, Sockets::Auto]);
    let left_out = |mode: &str| {
        let config = parse(&format!("[[port]]\ninterface = \"a\"\n{mode}")).unwrap();
        config.ports[0].kind
    };
    assert_eq!(left_out(""), Sockets::Auto);
    assert_eq!(left_out("mode = \"native\""), Sockets::Xdp, "packet sockets have no mode");
}

#[test]
fn the_memory_of_an_application_is_what_its_rings_hold() {
    let mib = |keys: &str| {
        let config = parse(&memif(&format!("socket = \"/s\"\n{keys}"))).unwrap();
        config.memifs[0].memory_bytes() >> 20
    };
    assert_eq!(mib("queues = 4"), 32);
    assert_eq!(mib("queues = 64\nring_size = 16384"), 8192);
    assert_eq!(mib("unsealed = true"), 1024);
    assert_eq!(mib("unsealed = true\nmemory_mib = 256"), 256);
    assert_eq!(mib("memory_mib = 1"), 1);
}

/// Each row: a text, and what the error must name.
#[test]
fn every_error_names_the_place() {
    let rows: &[(&str, &[&str])] = &[
        ("name = \"a/b\"", &["culvert.toml:1:8", "name", "a/b", "letters"]),
        ("name = 3", &["culvert.toml:1:8", "this is a number", "text in quotes"]),
        ("colour = 1", &["unknown key \"colour\"", "toml:1:"]),
        ("[[port]]\nmode = \"auto\"", &["port[0].interface: this key is missing"]),
        ("[kernel]\nfirewall = \"off\"", &["toml:2:", "respect", "bypass"]),
        ("[path_mtu]\nlifetime_s = 0", &["path_mtu.lifetime_s", "86400"]),
        ("[[port]]\ninterface = \"wan\"\nmode = \"fast\"", &["toml:3:", "native", "generic"]),
        ("[[port]]\ninterface = \"seventeen-letters\"", &["port[0].interface", "15"]),
        (
            "[[port]]\ninterface = \"a\"\n[[port]]\ninterface = \"a\"",
            &["port[1].interface", "twice"],
        ),
        ("[[port]]\ninterface = \"a\"\nqueues = 0", &["port[0].queues", "1 to 64"]),
        ("[[port]]\ninterface = \"a\"\nkind = \"tap\"", &["toml:3:", "interface", "memif"]),
        ("[[port]]\ninterface = \"a\"\nmtu = 1400", &["port[0].mtu", "kind = \"memif\""]),
        ("[[port]]\ninterface = \"a\"\nkind = \"packet\"\nmode = \"native\"", &["port[0].mode"]),
        ("[[port]]\ninterface = \"a\"\nkind = \"auto\"\nqueues = 0", &["port[0].queues"]),
        ("[[port]]\ninterface = \"a\"\nkind = \"packet\"\nid = 1", &["port[0].id"]),
        (&memif(""), &["port[0].socket", "the path"]),
        (&memif("socket = \"app.sock\""), &["port[0].socket", "absolute"]),
        (&memif("socket = \"/s\"\nmode = \"native\""), &["port[0].mode", "no XDP"]),
        (&memif("socket = \"/s\"\nmac = \"01:00:00:00:00:01\""), &["port[0].mac", "one station"]),
        (&memif("socket = \"/s\"\nmac = \"2:0:0:0:0:1\""), &["port[0].mac", "six bytes"]),
        (&memif("socket = \"/s\"\nring_size = 1000"), &["ring_size", "power of two"]),
        (&memif("socket = \"/s\"\nsecret = \"\""), &["port[0].secret", "1 to 24"]),
        (&memif("socket = \"/s\"\nqueues = 65"), &["port[0].queues", "64 pairs"]),
        ("[security]\nreader = \"a:b\"", &["security.reader", "a:b", "name of a user"]),
        (&memif("socket = \"/s\"\nmemory_mib = 0"), &["port[0].memory_mib", "1 to 262144"]),
        (
            &memif("socket = \"/s\"\nrole = \"client\"\nmemory_mib = 9"),
            &["port[0].memory_mib", "leave it out"],
        ),
        (&memif("socket = \"/s\"\nmtu = 1771"), &["port[0].mtu", "1770", "3818"]),
        (&memif("socket = \"/s\"\nrole = \"master\""), &["server", "client"]),
        (
            &format!("{}\n{}", memif("socket = \"/s\""), memif("socket = \"/t\"")),
            &["port[1].interface", "not another port"],
        ),
        (&format!("{0}\n{0}", memif("socket = \"/s\"")), &["port[0].socket", "of its own"]),
        (
            "[device.nic0]\nkind = \"nic-model\"\nport = \"a\"",
            &["device.nic0.port", "one of the ports"],
        ),
        (
            "[[port]]\ninterface = \"a\"\n[device.x]\nkind = \"nic-model\"\nport = \"a\"\n\
             [device.y]\nkind = \"nic-model\"\nport = \"a\"",
            &["device.x.port", "of its own"],
        ),
        (
            "[[port]]\ninterface = \"a\"\n[device.\"x y\"]\nkind = \"nic-model\"\nport = \"a\"",
            &["device.x y", "letters"],
        ),
        ("[device.x]\nkind = \"nic\"\nport = \"a\"", &["nic-model", "cryptodev"]),
        (
            "[device.x]\nkind = \"nic-model\"\nport = \"a\"\nargs = [\"a=1\"]",
            &["device.x.args", "cryptodev"],
        ),
        ("[device.x]\nkind = \"cryptodev\"\nport = \"a\"", &["device.x.driver", "crypto_openssl"]),
        #[cfg(not(feature = "cryptodev"))]
        (
            "[device.x]\nkind = \"cryptodev\"\nport = \"a\"\ndriver = \"crypto_openssl\"",
            &["device.x.kind", "Cargo feature cryptodev"],
        ),
        #[cfg(not(feature = "rtl"))]
        (
            "[device.x]\nkind = \"rtl-simulation\"\nport = \"a\"",
            &["device.x.kind", "Cargo feature rtl"],
        ),
        (
            "[[port]]\ninterface = \"a\"\n[device.x]\nkind = \"nic-model\"\nport = \"a\"\ninterval_ms = 99",
            &["device.x.interval_ms", "100 to 3600000"],
        ),
        (
            "[[port]]\ninterface = \"a\"\n[device.x]\nkind = \"nic-model\"\nport = \"a\"\nplacement = \"on\"",
            &["asked", "auto"],
        ),
        ("[tun]\nmtu = 100", &["tun.mtu", "1280"]),
        ("[tun]\ntable = 254", &["tun.table"]),
        ("[tun]\nrule_preference = 219", &["tun.rule_preference", "218"]),
        ("[tun]\nrule_preference = 1", &["tun.rule_preference", "2"]),
        ("[worker]\nframe_bytes = 3000", &["worker.frame_bytes", "4096"]),
        ("[worker]\nflows = 100", &["worker.flows", "1024"]),
        ("[worker]\ncpu = 1\ncrypto_cpus = [2, 1]", &["worker.crypto_cpus", "worker.cpus"]),
        ("[worker]\ncpus = [0, 1]\ncrypto_cpus = [2, 1]", &["worker.crypto_cpus", "differ"]),
        ("[worker]\ncpus = 0", &["worker.cpus", "1 to 64"]),
        ("[worker]\ncpus = []", &["worker.cpus", "1 to 64"]),
        ("[worker]\ncpus = 65", &["worker.cpus", "65", "1 to 64"]),
        ("[worker]\ncpus = -1", &["toml:2:", "a list of cores"]),
        ("[worker]\ncpus = \"all\"", &["toml:2:", "a number of workers", "[0, 2, 3]"]),
        ("[worker]\ncpus = [0, -3]", &["toml:2:", "-3"]),
        ("[worker]\ncpus = 2\ncpu = 1", &["worker.cpu", "worker.cpus"]),
        ("[worker]\ncrypto_cpus = [2, 3, 2]", &["worker.crypto_cpus", "differ"]),
        ("[worker]\npoll = \"never\"", &["toml:2:", "adaptive", "always"]),
        ("[worker]\nframes = 1000", &["worker.frames", "power of two"]),
        ("[guard]\nprefixes = [\"10.2.0.0\"]", &["toml:2:", "10.2.0.0", "/16"]),
        ("[guard]\nprefixes = [\"10.2.0.0/33\"]", &["toml:2:", "10.2.0.0/33"]),
        ("[crypto]\nengine = \"qat\"", &["toml:2:", "ipsec-mb"]),
        ("[crypto]\nallow_weak = 1", &["toml:2:", "true or false"]),
        ("name = ", &["toml:1:"]),
    ];
    for (text, expected) in rows {
        let error = parse(text).expect_err(text).to_string();
        for part in *expected {
            assert!(error.contains(part), "{text:?}: {part:?} not in: {error}");
        }
    }
}

#[test]
fn workers_by_number_by_core_and_by_the_older_key() {
    let cpus = |text: &str| parse(&format!("[worker]\n{text}")).unwrap().worker.cpus();
    assert_eq!(cpus(""), None);
    assert_eq!(cpus("cpus = 4"), Some(Cpus::Count(4)));
    assert_eq!(cpus("cpus = [0, 2, 2]"), Some(Cpus::Cores(vec![0, 2, 2])));
    assert_eq!(cpus("cpu = 3"), Some(Cpus::Cores(vec![3])));
}

/// A text that is nearly right, with some of its characters changed, cut or doubled.
fn nearly_right() -> impl Strategy<Value = String> {
    const TEXT: &str = "name = \"gwa\"\n[[port]]\ninterface = \"wan\"\nqueues = 2\n\
        [tun]\nmtu = 1400\n[guard]\nprefixes = [\"10.2.0.0/16\", \"2001:db8::/32\"]\n\
        [crypto]\nengine = \"openssl\"\n[worker]\npoll = \"always\"\n";
    let edit = (0..TEXT.len(), 0..4u8, any::<char>());
    proptest::collection::vec(edit, 1..6).prop_map(|edits| {
        let mut text: Vec<char> = TEXT.chars().collect();
        for (at, how, with) in edits {
            let Some(last) = text.len().checked_sub(1) else { break };
            let at = at.min(last);
            match how {
                0 => text[at] = with,
                1 => drop(text.remove(at)),
                2 => text.insert(at, text[at]),
                _ => text.truncate(at.max(1)),
            }
        }
        text.into_iter().collect()
    })
}

proptest! {
    #[test]
    fn any_text_is_valid_or_refused_with_the_file_named(
        text in prop_oneof![nearly_right(), "\\PC*"],
    ) {
        match parse(&text) {
            Ok(config) => prop_assert!(config.problems().is_empty()),
            Err(error) => prop_assert!(error.to_string().contains("culvert.toml")),
        }
    }
}

#[test]
fn missing_file_is_named() {
    let error = Config::load(Path::new("/nonexistent/c.toml")).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/c.toml") && error.contains("--config"));
}
