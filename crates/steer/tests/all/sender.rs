//! Packets of Linux come by the queue of the sender's CPU while a program chooses, and by flows otherwise.

use std::net::UdpSocket;

use crate::common::{in_namespace, ip};
use io::{Burst, ChunkSize, FramePool, Port, Tun, TunConfig, Umem, UmemConfig};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use steer::SenderCpu;

const QUEUES: usize = 3;

/// How many packets each queue has.
fn came(queues: &mut [Tun], pool: &mut FramePool) -> [usize; QUEUES] {
    let mut counts = [0; QUEUES];
    let mut burst = Burst::new();
    for (queue, count) in queues.iter_mut().zip(&mut counts) {
        while queue.rx(pool, &mut burst).expect("rx") > 0 {
            *count += burst.len();
            pool.put_burst(&mut burst);
        }
    }
    counts
}

#[test]
fn the_sender_s_cpu_chooses_the_queue() {
    in_namespace(|| {
        let config = TunConfig { name: "cvsender0".to_owned(), mtu: 1500 };
        let mut queues = Tun::open_queues(&config, QUEUES).expect("queues");
        let choice = queues[0].choice().expect("a descriptor");
        ip("link set cvsender0 addrgenmode none");
        queues[0].bring_up().expect("up");
        ip("addr add 10.9.0.1/24 dev cvsender0");
        let sockets: Vec<UdpSocket> =
            (0..32).map(|_| UdpSocket::bind("10.9.0.1:0").expect("a socket")).collect();
        let send = || {
            for socket in &sockets {
                socket.send_to(&[0], "10.9.0.2:9").expect("sent");
            }
        };
        let umem = UmemConfig { chunks: 1024, chunk_size: ChunkSize::Bytes2048, populate: false };
        let (_umem, mut pool) = Umem::new(umem).expect("memory");
        let mut program = SenderCpu::load("cvsender0").expect("loads");
        choice.by_program(Some(program.fd().expect("loaded"))).expect("taken");
        // The interface keeps it.
        drop(program);
        let allowed = sched_getaffinity(None).expect("affinity");
        let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
        for cpu in cpus {
            let mut only = CpuSet::new();
            only.set(cpu);
            sched_setaffinity(None, &only).expect("pinned");
            send();
            let mut expected = [0; QUEUES];
            expected[cpu % QUEUES] = sockets.len();
            assert_eq!(came(&mut queues, &mut pool), expected, "CPU {cpu}");
        }
        // Still on one CPU.
        choice.by_program(None).expect("taken away");
        send();
        let by_flow = came(&mut queues, &mut pool);
        assert_eq!(by_flow.iter().sum::<usize>(), sockets.len());
        assert!(!by_flow.contains(&0), "{by_flow:?}");
        // It lives as long as what chooses.
        drop(queues);
        ip("link show cvsender0");
        drop(choice);
    });
}
