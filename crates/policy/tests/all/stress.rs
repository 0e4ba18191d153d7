//! Readers look up while the writer changes things: no reader ever sees half a change.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;

use crate::common::{ESP, UDP, headers, hosts, policy, sa, template, v4};
use policy::{
    Action, Databases, Direction, Flow, Outbound, PolicyConfig, Prefix, Reader, Selector,
};

const READERS: usize = 3;

/// Runs `look` in several threads, over and over, while `write` changes the databases.
fn race(
    mut databases: Databases<u32>,
    write: impl FnOnce(&mut Databases<u32>),
    look: impl Fn(&mut Reader<u32>) + Sync,
) {
    let done = AtomicBool::new(false);
    let start = Barrier::new(READERS + 1);
    thread::scope(|scope| {
        for _ in 0..READERS {
            let mut reader = databases.reader();
            let (done, start, look) = (&done, &start, &look);
            scope.spawn(move || {
                start.wait();
                while !done.load(SeqCst) {
                    reader.refresh();
                    look(&mut reader);
                }
                reader.refresh();
                look(&mut reader);
            });
        }
        start.wait();
        write(&mut databases);
        done.store(true, SeqCst);
    });
}

fn protecting(index: u32, reqid: u32) -> PolicyConfig {
    let mut template = template(v4(9));
    template.reqid = reqid;
    PolicyConfig { templates: vec![template], ..policy(index, Direction::Out, 5) }
}

#[test]
fn a_replaced_policy_is_never_missing() {
    let mut databases = Databases::new();
    databases.put_policy(policy(1, Direction::Out, 5));
    race(
        databases,
        |databases| {
            for round in 0..4000u32 {
                let mut config = policy(1, Direction::Out, 5 + round % 3);
                if round % 2 == 0 {
                    config.action = Action::Block;
                }
                // The shape changes too: the policy moves from group to group.
                let len = (round % 4) as u8;
                let all = config.selector.src.addr;
                config.selector.src = Prefix { addr: all, len: 0 };
                config.selector.dst = Prefix { addr: v4(0), len };
                databases.put_policy(config);
            }
        },
        |reader| {
            let h = headers(v4(1), v4(2), UDP, 1, 2);
            let found = reader.policy(Direction::Out, &Flow::new(&h, 0));
            assert_eq!(found.map(|p| p.config.index), Some(1));
        },
    );
}

#[test]
fn a_replaced_sa_is_never_missing() {
    let mut databases = Databases::new();
    databases.put_policy(protecting(1, 1));
    databases.add_sa(sa(v4(9), 5), 0).unwrap();
    race(
        databases,
        |databases| {
            for round in 1..4000 {
                databases.replace_sa(sa(v4(9), 5), round);
            }
        },
        |reader| {
            let h = headers(v4(1), v4(2), UDP, 1, 2);
            assert!(matches!(reader.outbound(&Flow::new(&h, 0)), Outbound::Protect(..)));
            assert!(reader.inbound_sa(v4(9), 5, ESP, 0).is_some());
        },
    );
}

#[test]
fn rekeying_never_leaves_a_gap() {
    let mut databases = Databases::new();
    databases.put_policy(protecting(1, 1));
    databases.add_sa(sa(v4(9), 1), 1).unwrap();
    race(
        databases,
        |databases| {
            for spi in 2..3000 {
                databases.add_sa(sa(v4(9), spi), spi).unwrap();
                databases.remove_sa(&sa(v4(9), spi - 1).id()).unwrap();
            }
        },
        |reader| {
            let h = headers(v4(1), v4(2), UDP, 1, 2);
            let Outbound::Protect(_, sa) = reader.outbound(&Flow::new(&h, 0)) else {
                panic!("no SA");
            };
            let sa = reader.sa(sa).unwrap();
            assert_eq!(sa.config.params.spi, sa.esp);
        },
    );
}

#[test]
fn deleted_sas_stop_being_returned() {
    // SPIs below this are deleted, and the writer has said so.
    let deleted = AtomicU32::new(0);
    let deleted = &deleted;
    race(
        Databases::new(),
        |databases| {
            for spi in 1..3000 {
                databases.add_sa(sa(v4(9), spi), spi).unwrap();
                if spi > 10 {
                    databases.remove_sa(&sa(v4(9), spi - 10).id()).unwrap();
                    deleted.store(spi - 9, SeqCst);
                }
            }
        },
        |reader| {
            let below = deleted.load(SeqCst);
            reader.refresh_all();
            for spi in below.saturating_sub(5)..below {
                assert!(reader.inbound_sa(v4(9), spi, ESP, 0).is_none(), "SPI {spi} of {below}");
            }
            for spi in below..below + 10 {
                if let Some(sa) = reader.inbound_sa(v4(9), spi, ESP, 0) {
                    assert_eq!(reader.sa(sa).unwrap().esp, spi);
                }
            }
        },
    );
}

/// The writer first installs an SA, then the policy that needs it, then removes the predecessor
/// of both: a reader that sees a policy always sees its SA, wherever the two are stored.
#[test]
fn changes_are_seen_in_their_order() {
    let mut databases = Databases::new();
    let mut first = sa(v4(9), 1);
    first.reqid = 1;
    databases.add_sa(first, 1).unwrap();
    databases.put_policy(protecting(1, 1));
    race(
        databases,
        |databases| {
            for n in 2..3000 {
                let mut next = sa(v4(9), n);
                next.reqid = n;
                databases.add_sa(next, n).unwrap();
                databases.put_policy(protecting(1, n));
                databases.remove_sa(&sa(v4(9), n - 1).id()).unwrap();
                if n % 16 == 0 {
                    thread::yield_now();
                }
            }
        },
        |reader| {
            let h = headers(v4(1), v4(2), UDP, 1, 2);
            // Each view is the databases between two changes, so there is an SA in all of them.
            match reader.outbound(&Flow::new(&h, 0)) {
                Outbound::Protect(_, sa) => {
                    let sa = reader.sa(sa).unwrap();
                    assert_eq!(sa.config.reqid, sa.esp);
                }
                other => panic!("{other:?}"),
            }
        },
    );
}

#[test]
fn thousands_of_sas_and_policies_come_and_go() {
    let h = headers(v4(1), v4(2), UDP, 1, 2);
    let mut databases = Databases::new();
    // One policy that nobody touches among many that come and go.
    let selector = Selector { protocol: UDP, ..hosts(v4(1), v4(2)) };
    databases.put_policy(PolicyConfig { selector, ..protecting(1, 1) });
    databases.add_sa(sa(v4(9), 1), 1).unwrap();
    let kept = Arc::new(AtomicU32::new(0));
    race(
        databases,
        |databases| {
            for round in 0..3 {
                for n in 2..1500u32 {
                    let mut config = sa(v4(9), n);
                    config.reqid = n;
                    databases.add_sa(config, n).unwrap();
                    let mut config = protecting(n, n);
                    config.priority = 4 + n % 3;
                    config.selector = hosts(v4((n % 250) as u8), v4(200));
                    databases.put_policy(config);
                }
                for n in 2..1500 {
                    let gone = databases.remove_sa(&sa(v4(9), n).id()).unwrap();
                    assert!(gone.is_removed());
                    databases.remove_policy(n).unwrap();
                }
                assert_eq!(databases.sa_count(), 1, "round {round}");
                assert_eq!(databases.sas().count(), 1);
                assert_eq!(databases.policies().len(), 1);
            }
        },
        |reader| match reader.outbound(&Flow::new(&h, 0)) {
            Outbound::Protect(policy, sa) => {
                assert_eq!((policy.config.index, reader.sa(sa).unwrap().esp), (1, 1));
                kept.fetch_add(1, SeqCst);
            }
            other => panic!("{other:?}"),
        },
    );
    assert!(kept.load(SeqCst) > 0);
}
