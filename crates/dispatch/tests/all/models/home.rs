//! Parcels between workers, while the home of an SA moves.

use arrayvec::ArrayVec;
use dispatch::{Home, Mesh, Peer, Sleepers};
use loom::sync::{Arc, Notify};
use loom::thread::{self};

use super::support::{Flow, Item, Mint};

fn peers<const N: usize>(depth: usize) -> [Peer<Item>; N] {
    let peers: Vec<_> = Mesh::new(N, depth, &Sleepers::new()).into_iter().collect();
    peers.try_into().ok().unwrap()
}

/// An SA: its home, and a state that only the home writes.
#[derive(Clone)]
struct Sa {
    home: Arc<Home>,
    state: Flow,
}

impl Sa {
    fn at(worker: usize) -> Self {
        Self { home: Arc::new(Home::new(worker)), state: Flow::new() }
    }

    /// Works on an item, or hands it over.
    fn take(&self, peer: &mut Peer<Item>, item: Item) {
        match self.home.at() {
            at if at == peer.worker() => self.state.handle(item),
            at => peer.send(at, item).expect("room"),
        }
    }

    /// Takes what has come; false if nothing had.
    fn serve(&self, peer: &mut Peer<Item>) -> bool {
        let mut out: ArrayVec<Item, 4> = ArrayVec::new();
        let came = peer.receive(&mut out, 4) > 0;
        out.into_iter().for_each(|item| self.take(peer, item));
        came
    }

    /// When all threads have ended: serves what is under way, and gives what was worked on.
    fn end(&self, peers: &mut [Peer<Item>]) -> Vec<usize> {
        while peers.iter_mut().any(|peer| self.serve(peer)) {}
        let mut seen = self.state.seen();
        seen.sort_unstable();
        seen
    }
}

#[test]
fn a_packet_handed_over_while_the_home_moves_is_worked_on_once() {
    loom::model(|| {
        let mint = Mint::new();
        let sa = Sa::at(1);
        let [mut first, mut old, mut new] = peers(2);
        let leave = {
            let sa = sa.clone();
            thread::spawn(move || {
                sa.serve(&mut old);
                assert!(sa.home.leave(1, 2));
                sa.serve(&mut old);
                old
            })
        };
        let arrive = {
            let sa = sa.clone();
            thread::spawn(move || {
                sa.serve(&mut new);
                new
            })
        };
        for item in mint.items([0, 1]) {
            sa.take(&mut first, item);
        }
        let mut peers = [first, leave.join().unwrap(), arrive.join().unwrap()];
        assert_eq!(sa.end(&mut peers), [0, 1]);
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn of_two_that_claim_one_is_the_home() {
    loom::model(|| {
        let mint = Mint::new();
        let sa = Sa { home: Arc::new(Home::vacant()), state: Flow::new() };
        let [mut here, mut there] = peers(2);
        let item = mint.item(10);
        let hand = {
            let sa = sa.clone();
            thread::spawn(move || {
                let home = sa.home.claim(1);
                assert_eq!(home, sa.home.at());
                sa.take(&mut there, item);
                sa.serve(&mut there);
                there
            })
        };
        let home = sa.home.claim(0);
        assert_eq!(home, sa.home.at());
        sa.take(&mut here, mint.item(0));
        sa.serve(&mut here);
        let mut peers = [here, hand.join().unwrap()];
        assert_eq!(sa.end(&mut peers), [0, 10]);
        assert_eq!(mint.living(), 0);
    });
}

/// Each thread finds a home for two SAs, the second one's for the first.
#[test]
fn a_home_may_be_found_for_another_worker() {
    loom::model(|| {
        let mint = Mint::new();
        let vacant = || Sa { home: Arc::new(Home::vacant()), state: Flow::new() };
        let (inner, outer) = (vacant(), vacant());
        let [mut here, mut there] = peers(2);
        let claim = |inner: &Sa, outer: &Sa, me| inner.home.claim(outer.home.claim(me));
        let item = mint.item(10);
        let hand = {
            let (inner, outer) = (inner.clone(), outer.clone());
            thread::spawn(move || {
                let home = claim(&inner, &outer, 1);
                inner.take(&mut there, item);
                inner.serve(&mut there);
                (there, home)
            })
        };
        let home = claim(&inner, &outer, 0);
        inner.take(&mut here, mint.item(0));
        inner.serve(&mut here);
        let (there, other) = hand.join().unwrap();
        assert_eq!([home, other, inner.home.at()], [outer.home.at(); 3]);
        assert_eq!(inner.end(&mut [here, there]), [0, 10]);
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn a_home_that_goes_and_comes_back_has_one_writer() {
    loom::model(|| {
        let mint = Mint::new();
        let sa = Sa::at(0);
        let [mut here, mut there] = peers(4);
        let item = mint.item(10);
        let hand = {
            let sa = sa.clone();
            thread::spawn(move || {
                sa.take(&mut there, item);
                sa.serve(&mut there);
                let _not_there_yet = sa.home.leave(1, 0);
                sa.serve(&mut there);
                there
            })
        };
        let [one, two] = mint.items([0, 1]).into_inner().ok().unwrap();
        sa.take(&mut here, one);
        assert!(sa.home.leave(0, 1));
        sa.take(&mut here, two);
        sa.serve(&mut here);
        let mut peers = [here, hand.join().unwrap()];
        assert_eq!(sa.end(&mut peers), [0, 1, 10]);
        assert_eq!(mint.living(), 0);
    });
}

#[test]
fn a_home_that_only_passes_on_passes_all_on() {
    loom::model(|| {
        let sa = Sa::at(0);
        let pass = {
            let sa = sa.clone();
            // Never asks whether it is the home, nor touches the state.
            thread::spawn(move || sa.home.leave(1, 2))
        };
        let last = {
            let sa = sa.clone();
            thread::spawn(move || sa.home.is_at(2).then(|| sa.state.note(2)))
        };
        sa.state.note(0);
        assert!(sa.home.leave(0, 1));
        let (passed, noted) = (pass.join().unwrap(), last.join().unwrap().is_some());
        assert_eq!(sa.home.at(), if passed { 2 } else { 1 });
        assert_eq!(sa.state.seen(), if noted { vec![0, 2] } else { vec![0] });
    });
}

#[test]
fn nobody_sleeps_over_a_parcel() {
    loom::model(|| {
        let sleepers = Sleepers::new();
        let mut peers = Mesh::new(2, 2, &sleepers).into_iter();
        let (mut here, mut there) = (peers.next().unwrap(), peers.next().unwrap());
        let bell = Arc::new(Notify::new());
        let send = {
            let bell = Arc::clone(&bell);
            thread::spawn(move || {
                there.send(0, 1).unwrap();
                there.wake(|worker| {
                    assert_eq!(worker, 0);
                    bell.notify();
                });
                there
            })
        };
        // A lost wake-up is a deadlock, which loom reports.
        let mut out: ArrayVec<u32, 2> = ArrayVec::new();
        while here.receive(&mut out, 2) == 0 {
            sleepers.prepare(0);
            if here.is_empty() {
                bell.wait();
            }
            sleepers.awake(0);
        }
        assert_eq!(out.as_slice(), [1]);
        send.join().unwrap();
    });
}
