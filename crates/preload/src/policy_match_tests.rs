use super::*;
use proptest::prelude::*;

/// The command line after translation; `None` if it stays.
fn translated(line: &str) -> Option<String> {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let from = rules_begin(args[0], &args)?;
    let mut out = Words::new();
    translate(&args, from, &mut out).then(|| joined(&args, out.as_slice()))
}

fn joined(args: &[&[u8]], words: &[Word]) -> String {
    let text = |word: &Word| match word {
        Word::Old(at) => String::from_utf8(args[*at].to_vec()).unwrap(),
        Word::New(word) => word.to_str().unwrap().to_owned(),
        Word::Private => "culvert0".to_owned(),
    };
    words.iter().map(text).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn becomes(line: &str, expected: &str) {
    assert_eq!(translated(line).as_deref(), Some(expected), "{line}");
}

#[track_caller]
fn stays(line: &str) {
    assert_eq!(translated(line), None, "{line}");
}

/// The rules of strongSwan's `_updown`.
#[test]
fn rules_of_updown() {
    let reqid = "--pol ipsec --reqid 7 --proto esp";
    for verb in ["-I INPUT 1", "-D INPUT", "-C INPUT", "-A INPUT"] {
        becomes(
            &format!(
                "iptables {verb} -i eth0 -p tcp -s 10.2.0.0/24 -d 10.1.0.1/32 --dport 22 -m policy --dir in \
                 {reqid} -j ACCEPT"
            ),
            &format!(
                "iptables {verb} -i culvert0 -p tcp -s 10.2.0.0/24 -d 10.1.0.1/32 --dport 22 -j ACCEPT"
            ),
        );
    }
    becomes(
        &format!(
            "/usr/sbin/ip6tables -I OUTPUT 1 -o eth0 -s fd01::1 -m policy --dir out {reqid} -d fd02::/64 -j \
             ACCEPT"
        ),
        "/usr/sbin/ip6tables -I OUTPUT 1 -o culvert0 -s fd01::1 -d fd02::/64 -j ACCEPT",
    );
}

#[test]
fn however_it_is_said() {
    becomes(
        "iptables -A FORWARD -m policy --pol ipsec --dir in -j ACCEPT",
        "iptables -A FORWARD -i culvert0 -j ACCEPT",
    );
    becomes(
        "iptables -A FORWARD -ieth0 --match=policy --pol=ipsec --dir=in --strict --mode tunnel \
         --tunnel-src 192.0.2.2 --tunnel-dst=192.0.2.1 --spi 0x10 --next -j ACCEPT",
        "iptables -A FORWARD -i culvert0 -j ACCEPT",
    );
    becomes(
        "iptables -A FORWARD --in-interface=eth0 -mpolicy --dir in --pol ipsec --out-interface lan -j ACCEPT",
        "iptables -A FORWARD -i culvert0 --out-interface lan -j ACCEPT",
    );
    becomes(
        "xtables-nft-multi iptables -A INPUT -m policy --dir in --pol ipsec",
        "xtables-nft-multi iptables -A INPUT -i culvert0",
    );
    // Both directions of what is forwarded from tunnel to tunnel.
    becomes(
        "iptables -A FORWARD -i eth0 -m policy --dir in --pol ipsec -m policy --dir out --pol ipsec -o eth0",
        "iptables -A FORWARD -i culvert0 -o culvert0",
    );
    // The option belongs to the match that was named last.
    becomes(
        "iptables -A INPUT -m policy --dir in --pol ipsec -m statistic --mode random --probability 0.5",
        "iptables -A INPUT -i culvert0 -m statistic --mode random --probability 0.5",
    );
}

#[test]
fn what_is_not_ipsec() {
    becomes(
        "iptables -t nat -A POSTROUTING -m policy --dir out --pol none -j MASQUERADE",
        "iptables -t nat -A POSTROUTING ! -o culvert0 -j MASQUERADE",
    );
    stays("iptables -t nat -A POSTROUTING -o eth0 -m policy --dir out --pol none -j MASQUERADE");
    // One is left alone, the other is not.
    becomes(
        "iptables -A FORWARD -i eth0 -m policy --dir in --pol ipsec -o lan -m policy --dir out --pol none",
        "iptables -A FORWARD -i culvert0 -o lan -m policy --dir out --pol none",
    );
}

#[test]
fn what_cannot_be_said_exactly_stays() {
    for rule in [
        "-A INPUT ! -i eth0 -m policy --dir in --pol ipsec",
        "-A INPUT -m policy --dir in --pol ipsec ! --reqid 3",
        "-A INPUT ! -m policy --dir in --pol ipsec",
        "-A INPUT -m policy --pol ipsec",
        "-A INPUT -m policy --dir in",
        "-A INPUT -m policy --dir sideways --pol ipsec",
        "-A INPUT -m policy --dir in --pol none --reqid 3",
        "-A INPUT -i a -i b -m policy --dir in --pol ipsec",
        // Text that only looks like it.
        "-A INPUT -m comment --comment -mpolicy --dir in --pol ipsec",
        // Without a policy match the words are another's.
        "-A INPUT --proto tcp --dir in --pol ipsec",
        "-D INPUT 3",
        "-m policy --help",
    ] {
        stays(&format!("iptables {rule}"));
    }
}

#[test]
fn other_programs_are_left_alone() {
    for program in ["iptables-restore", "nft", "ip", "logger", "myiptables", "xtables-nft-multi"] {
        stays(&format!("{program} -A INPUT -m policy --dir in --pol ipsec"));
    }
}

#[test]
fn too_many_words_stay() {
    let mut args: Vec<&[u8]> =
        vec![b"iptables", b"-m", b"policy", b"--dir", b"in", b"--pol", b"ipsec"];
    let mut out = Words::new();
    args.resize(MAX_ARGS, b"x");
    assert!(translate(&args, 1, &mut out));
    args.push(b"x");
    assert!(!translate(&args, 1, &mut out));
}

fn word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "-m",
        "policy",
        "--dir",
        "in",
        "out",
        "--pol",
        "ipsec",
        "none",
        "-i",
        "-o",
        "eth0",
        "!",
        "--mode",
        "tunnel",
        "--reqid",
        "1",
        "-j",
        "ACCEPT",
        "--match=policy",
        "-ilan",
        "--next",
        "--strict",
        "-s",
        "10.0.0.0/8",
        "--comment",
        "statistic",
        "-m",
        "policy",
        "--pol",
        "ipsec",
        "--dir",
        "in",
    ];
    prop::sample::select(WORDS).prop_map(str::to_owned)
}

proptest! {
    /// Without a policy match nothing changes.
    #[test]
    fn others_rules_stay(words in prop::collection::vec("[-a-z0-9=!./]{0,12}", 0..40)) {
        prop_assume!(!words.iter().any(|w| w.contains("policy")));
        prop_assert_eq!(translated(&format!("iptables {}", words.join(" "))), None);
    }

    /// Whatever is said: what comes out has the old words in their old order, and none that is not
    /// the match's or the interface's is missing.
    #[test]
    fn the_rest_stays_in_order(words in prop::collection::vec(word(), 0..60)) {
        let mut line = vec!["iptables".to_owned()];
        line.extend(words);
        let args: Vec<&[u8]> = line.iter().map(String::as_bytes).collect();
        let mut out = Words::new();
        if translate(&args, 1, &mut out) {
            let old: Vec<usize> = out.as_slice().iter().filter_map(|w| match w {
                Word::Old(at) => Some(*at),
                _ => None,
            }).collect();
            prop_assert!(old.is_sorted() && old.first() == Some(&0));
            let rest = |word: &&[u8]| [&b"-s"[..], b"10.0.0.0/8", b"-j"].contains(word);
            let before = args.iter().filter(|word| rest(word)).count();
            let after = old.iter().filter(|at| rest(&args[**at])).count();
            // A word of the rest may have been another option's value.
            prop_assert!(after <= before && before - after <= old.len() + MAX_MATCHES * 10);
            prop_assert!(out.as_slice().contains(&Word::Private));
        }
    }
}
