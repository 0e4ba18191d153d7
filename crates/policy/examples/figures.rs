//! Measures the databases: look-ups, installation, memory, refreshes, as they grow.
//!
//! `cargo run --release --example figures [SECTION]`, with `sa`, `spd`, `install`, `memory`,
//! `refresh` or nothing for all. Pin it to a quiet core. Times are wall-clock nanoseconds for one
//! operation, keys uniformly at random, each look-up alone: nothing is prefetched but where said.

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use crypto::{AesKey, IcvLen, Suite};
use esp::{Mode, Protocol, SaFlags, SaParams};
use mem::Cache;
use policy::{
    Databases, Direction, Flow, Mark, Outbound, PolicyConfig, Reader, SaConfig, SaEntry,
    VolumeLimits, workload,
};
use wire::Headers;

/// The system's allocator, counting what is in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// As much memory as the packet work of an SA takes: it stands for cache misses and for freeing.
type Work = Box<[u8; 1024]>;

fn main() {
    let wanted = std::env::args().nth(1);
    let sections: [(&str, fn()); 5] = [
        ("sa", sa_lookups),
        ("spd", spd_lookups),
        ("install", installs),
        ("memory", memory),
        ("refresh", refreshes),
    ];
    for (name, section) in sections {
        if wanted.as_deref().is_none_or(|wanted| wanted == name) {
            section();
        }
    }
}

/// The outbound SA of tunnel `i`, or the inbound one.
fn sa(i: u32, inbound: bool) -> SaConfig {
    let gateway = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
    let peer = IpAddr::V4(Ipv4Addr::from_bits(0x1400_0000 + i));
    let (src, dst) = if inbound { (peer, gateway) } else { (gateway, peer) };
    SaConfig {
        params: SaParams {
            spi: spi(i),
            src,
            dst,
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite: Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 },
            encap: None,
            esn: false,
            replay_window: 64,
            tfc_pad_len: 0,
            flags: SaFlags::default(),
        },
        mark: Mark::default(),
        if_id: 0,
        reqid: i + 1,
        selector: None,
        iptfs: None,
        set_mark: Mark::default(),
        cpu: None,
        limits: VolumeLimits::NONE,
        added_s: 100,
        generation: u64::from(i),
    }
}

/// SPIs are random numbers.
fn spi(i: u32) -> u32 {
    i.wrapping_mul(0x9e37_79b1) | 0x100
}

fn add<S>(databases: &mut Databases<S>, config: SaConfig, esp: S) {
    if databases.add_sa(config, esp).is_err() {
        unreachable!("no two SAs are the same");
    }
}

/// Numbers below `below`, in no order.
fn keys(count: usize, below: u32) -> Vec<u32> {
    let mut state = 1_u64;
    let next = |_| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((state >> 33) % u64::from(below)) as u32
    };
    (0..count).map(next).collect()
}

/// Nanoseconds for each of `items`, in the best of five runs.
fn time<T>(items: &[T], mut each: impl FnMut(&T)) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let begun = Instant::now();
        items.iter().for_each(&mut each);
        best = best.min(begun.elapsed().as_nanos() as f64 / items.len() as f64);
    }
    best
}

const LOOKUPS: usize = 200_000;
/// Of a database in which one takes microseconds.
const SLOW_LOOKUPS: usize = 5000;

fn sa_lookups() {
    println!("SAs       inbound  miss  prefetched by 32  (ns)");
    for n in [1, 1000, 100_000] {
        let mut databases = Databases::<Work>::new();
        for i in 0..n {
            add(&mut databases, sa(i, true), Box::new([0; 1024]));
        }
        let reader = databases.reader();
        let dst = sa(0, true).params.dst;
        let spis: Vec<u32> = keys(LOOKUPS, n).into_iter().map(spi).collect();
        let find = |spi: u32| reader.inbound_sa(dst, spi, 50, 0);
        let one = |&spi: &u32| {
            black_box(find(spi).and_then(|sa| reader.sa(sa)).map(SaEntry::state));
        };
        let hit = time(&spis, one);
        let miss = time(&spis, |spi| assert!(black_box(find(spi ^ 1)).is_none()));
        let bursts: Vec<&[u32]> = spis.chunks(32).collect();
        let burst = time(&bursts, |spis| {
            spis.iter().for_each(|&spi| {
                reader.prefetch_inbound(Cache::First, reader.inbound_tag(dst, spi, 50))
            });
            spis.iter().for_each(one);
        });
        println!("{n:7}  {hit:8.1}  {miss:4.1}  {:16.1}", burst / 32.0);
    }
}

fn spd_lookups() {
    type Build = fn(u32) -> Vec<PolicyConfig>;
    let databases: [(&str, Build, &[u32]); 5] = [
        ("remote access", workload::remote_access, &[1, 1000, 100_000]),
        ("hub", workload::hub, &[1, 1000, 100_000]),
        ("mixed", workload::mixed, &[1, 1000, 100_000]),
        ("many shapes", workload::many_shapes, &[100, 1000, 10_000]),
        ("many ports", workload::many_ports, &[1000, 10_000]),
    ];
    println!("policies out             hit  fragment  miss  with SA  forward  (ns)");
    for (name, build, sizes) in databases {
        for &n in sizes {
            spd(name, n, &build(n));
        }
    }
}

fn spd(name: &str, n: u32, policies: &[PolicyConfig]) {
    let mut databases = Databases::<Work>::new();
    policies.iter().for_each(|policy| drop(databases.put_policy(policy.clone())));
    for i in 0..n {
        add(&mut databases, sa(i, false), Box::new([0; 1024]));
    }
    let reader = databases.reader();
    let lookups = if name == "many shapes" { SLOW_LOOKUPS } else { LOOKUPS };
    let packets = |direction| -> Vec<Headers> {
        let of: Vec<_> = policies.iter().filter(|p| p.direction == direction).collect();
        let keys = keys(lookups, of.len() as u32);
        keys.into_iter()
            .enumerate()
            .map(|(i, at)| workload::hit(of[at as usize], i as u32))
            .collect()
    };
    let look = |headers: &[Headers], direction| {
        time(headers, |h| {
            black_box(reader.policy(direction, &Flow::new(h, 1)));
        })
    };
    let mut hits = packets(Direction::Out);
    let hit = look(&hits, Direction::Out);
    let with_sa = time(&hits, |h| {
        black_box(reader.outbound(&Flow::new(h, 1)));
    });
    hits.iter_mut().for_each(|h| h.fragment = wire::Fragment::Later);
    let fragment = look(&hits, Direction::Out);
    let misses: Vec<Headers> = (0..lookups as u32).map(workload::miss).collect();
    let miss = look(&misses, Direction::Out);
    let forward = look(&packets(Direction::Forward), Direction::Forward);
    println!("{name:14} {n:6} {hit:8.1} {fragment:9.1} {miss:5.1} {with_sa:8.1} {forward:8.1}");
}

fn installs() {
    println!("at 100 000 tunnels        a second");
    let n = 100_000;
    let policies = workload::remote_access(n);
    let mut databases = Databases::<()>::new();
    let mut reader = databases.reader();
    let report = |what: &str, count: u32, begun: Instant| {
        println!("{what:24} {:9.0}", f64::from(count) / begun.elapsed().as_secs_f64());
    };
    let begun = Instant::now();
    for (i, policies) in policies.chunks(3).enumerate() {
        let i = i as u32;
        add(&mut databases, sa(i, false), ());
        add(&mut databases, sa(i, true), ());
        policies.iter().for_each(|policy| drop(databases.put_policy(policy.clone())));
        reader.refresh();
    }
    report("tunnels (2 SAs, 3 pol.)", n, begun);
    let configs: Vec<SaConfig> = (n..2 * n).map(|i| sa(i, false)).collect();
    let begun = Instant::now();
    let mut worst = 0.0_f64;
    for config in &configs {
        let config = config.clone();
        let begun = Instant::now();
        add(&mut databases, config, ());
        worst = worst.max(begun.elapsed().as_nanos() as f64 / 1000.0);
        reader.refresh();
    }
    report("SAs in", n, begun);
    println!("  slowest of them: {worst:.0} us, an index that doubles");
    let begun = Instant::now();
    for config in &configs {
        databases.remove_sa(&config.id());
        reader.refresh();
    }
    report("SAs out", n, begun);
    for (name, policies) in [
        ("remote access", policies),
        ("mixed", workload::mixed(33_000)),
        ("many shapes", workload::many_shapes(3000)),
        ("many ports", workload::many_ports(10_000)),
    ] {
        let mut databases = Databases::<()>::new();
        let mut reader = databases.reader();
        let count = policies.len() as u32;
        let begun = Instant::now();
        for policy in &policies {
            databases.put_policy(policy.clone());
            reader.refresh();
        }
        report(&format!("{name}: policies in"), count, begun);
        let begun = Instant::now();
        for policy in &policies {
            databases.remove_policy(policy.index);
            reader.refresh();
        }
        report(&format!("{name}: policies out"), count, begun);
    }
}

fn memory() {
    println!("bytes for each at 100 000, with 1 and 5 readers  (without the entry itself)");
    let n = 100_000;
    let after = |readers: usize, fill: &dyn Fn(&mut Databases<()>)| {
        let before = IN_USE.load(Relaxed);
        let mut databases = Databases::<()>::new();
        let mut readers: Vec<Reader<()>> = (0..readers).map(|_| databases.reader()).collect();
        fill(&mut databases);
        let filled = IN_USE.load(Relaxed);
        readers.iter_mut().for_each(|reader| assert!(reader.refresh_all()));
        let done = IN_USE.load(Relaxed);
        let each = |bytes: usize| bytes as f64 / f64::from(n);
        println!("  {:.0} more while {} readers wait", each(filled - done), readers.len());
        each(done - before)
    };
    // The counts of an `Arc` belong to the entry.
    let entry = (size_of::<SaEntry<()>>() + 64) as f64;
    let fill = |databases: &mut Databases<()>| (0..n).for_each(|i| add(databases, sa(i, true), ()));
    let [one, five] = [1, 5].map(|readers| after(readers, &fill) - entry);
    println!("SA      {one:5.0} {five:5.0}, entry {entry}");
    let policies: Vec<_> = workload::remote_access(n);
    let policies: Vec<_> = policies.into_iter().filter(|p| p.direction == Direction::Out).collect();
    let entry = (size_of::<policy::PolicyEntry>() + 32 + size_of::<policy::Template>()) as f64;
    let fill = |databases: &mut Databases<()>| {
        policies.iter().for_each(|policy| drop(databases.put_policy(policy.clone())));
    };
    let [one, five] = [1, 5].map(|readers| after(readers, &fill) - entry);
    println!("policy  {one:5.0} {five:5.0}, entry {entry}");
}

fn refreshes() {
    println!("refreshes at 100 000 SAs: median, 99 %, worst (us), of so many");
    let mut databases = Databases::<Work>::new();
    let n = 100_000;
    for (i, policies) in workload::remote_access(n).chunks(3).enumerate() {
        add(&mut databases, sa(i as u32, true), Box::new([0; 1024]));
        policies.iter().for_each(|policy| drop(databases.put_policy(policy.clone())));
    }
    let mut reader = databases.reader();
    reader.refresh_all();
    let mut report = |what: &str,
                      databases: &mut Databases<Work>,
                      change: &dyn Fn(&mut Databases<Work>, u32)| {
        let mut times = Vec::new();
        for round in 0..50 {
            (0..1000).for_each(|i| change(databases, round * 1000 + i));
            // The worker does other things in between.
            let cold: Vec<u8> = vec![1; 4 << 20];
            black_box(cold.iter().map(|&b| u64::from(b)).sum::<u64>());
            while reader.is_behind() {
                let begun = Instant::now();
                reader.refresh();
                times.push(begun.elapsed().as_nanos() as f64 / 1000.0);
            }
        }
        times.sort_unstable_by(f64::total_cmp);
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        println!("{what:16} {:6.1} {:6.1} {:6.1}  {}", at(50), at(99), at(100), times.len());
    };
    report("SAs in", &mut databases, &|databases, i| {
        add(databases, sa(n + i, true), Box::new([0; 1024]));
    });
    report("SAs replaced", &mut databases, &|databases, i| {
        let mut config = sa(n + i, true);
        config.added_s = 200;
        databases.replace_sa(config, Box::new([0; 1024]));
    });
    report("SAs out", &mut databases, &|databases, i| {
        databases.remove_sa(&sa(n + i, true).id());
    });
    let policies = workload::remote_access(n);
    report("policies out", &mut databases, &|databases, i| {
        databases.remove_policy(policies[i as usize].index);
    });
    report("policies in", &mut databases, &|databases, i| {
        databases.put_policy(policies[i as usize].clone());
    });
    let Outbound::NoState(..) = reader.outbound(&Flow::new(&workload::hit(&policies[0], 1), 1))
    else {
        unreachable!("there are inbound SAs only");
    };
}
