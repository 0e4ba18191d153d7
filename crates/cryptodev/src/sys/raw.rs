//! The shim's functions and what it shares, by hand from `shim/shim.h`.

use core::ffi::{c_char, c_int, c_void};

/// Memory for things of one size.
#[repr(C)]
pub struct Pool {
    _opaque: [u8; 0],
    // Threads: its owners say which of them may use it.
    _not_send: core::marker::PhantomData<*mut ()>,
}

/// A queue pair and its memory.
#[repr(C)]
pub struct Pair {
    pub ops: *mut Pool,
    pub packets: *mut Pool,
    pub outside: u32,
    pub serial: u32,
    pub pair: u16,
    pub device: u8,
}

/// Layout of `struct culvert_cd_transform`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    pub kind: u8,
    pub cipher: u8,
    pub auth: u8,
    pub cipher_key_len: u8,
    pub auth_key_len: u8,
    pub iv_len: u8,
    pub icv_len: u8,
    pub aad_len: u8,
}

/// Layout of `struct culvert_cd_facts`.
#[repr(C)]
pub struct Facts {
    pub name: *const c_char,
    pub driver: *const c_char,
    pub most_pairs: u32,
    pub most_sessions: u32,
    pub has_chains: u32,
}

/// Layout of `struct culvert_cd_job`.
#[repr(C)]
pub struct Job {
    pub session: *mut c_void,
    pub body: *const u8,
    pub icv: *const u8,
    pub body_len: u32,
    pub text: u32,
    pub index: u32,
    pub kind: u8,
    pub is_ccm: u8,
    pub icv_len: u8,
    pub front_len: u8,
    pub tail_len: u8,
    pub aad_len: u8,
    pub front: [u8; 12],
    pub tail: [u8; 4],
    pub aad: [u8; 12],
    pub iv: [u8; 16],
}

/// Layout of `struct culvert_cd_done`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Done {
    pub op: *mut c_void,
    pub body: *const u8,
    pub icv: *const u8,
    pub body_len: u32,
    pub icv_len: u32,
    pub index: u32,
    pub status: u32,
}

const _: () = assert!(size_of::<Job>() == 88 && size_of::<Done>() == 40);

pub const KIND_AEAD: u8 = 0;
pub const KIND_CHAIN: u8 = 1;
pub const KIND_AUTH: u8 = 2;

pub const AEAD_GCM: u8 = 0;
pub const AEAD_CCM: u8 = 1;
pub const AEAD_CHACHA: u8 = 2;

pub const CIPHER_AES_CBC: u8 = 0;
pub const CIPHER_AES_CTR: u8 = 1;
pub const CIPHER_3DES_CBC: u8 = 2;
pub const CIPHER_DES_CBC: u8 = 3;

pub const AUTH_MD5: u8 = 0;
pub const AUTH_SHA1: u8 = 1;
pub const AUTH_SHA256: u8 = 2;
pub const AUTH_SHA384: u8 = 3;
pub const AUTH_SHA512: u8 = 4;
pub const AUTH_XCBC: u8 = 5;
pub const AUTH_CMAC: u8 = 6;
pub const AUTH_GMAC: u8 = 7;

pub const STATUS_DONE: u32 = 0;
pub const STATUS_WRONG_ICV: u32 = 1;

unsafe extern "C" {
    pub fn culvert_cd_start(count: c_int, arguments: *const *const c_char) -> c_int;
    pub fn culvert_cd_version() -> *const c_char;
    pub fn culvert_cd_find(name: *const c_char, is_address: c_int) -> c_int;
    pub fn culvert_cd_facts(id: u8, facts: *mut Facts);
    pub fn culvert_cd_does(id: u8, transform: *const Transform) -> c_int;
    pub fn culvert_cd_bring_up(
        id: u8,
        pairs: u16,
        depth: u32,
        sessions: *mut *mut Pool,
        count: u32,
    ) -> c_int;
    pub fn culvert_cd_close(id: u8, sessions: *mut Pool);
    pub fn culvert_cd_session(
        id: u8,
        sessions: *mut Pool,
        transform: *const Transform,
        is_seal: c_int,
        cipher_key: *const u8,
        auth_key: *const u8,
    ) -> *mut c_void;
    pub fn culvert_cd_session_free(id: u8, session: *mut c_void);
    pub fn culvert_cd_queue_new(
        device: u8,
        pair: u16,
        serial: u32,
        packets: u32,
        most_len: u16,
    ) -> *mut Pair;
    pub fn culvert_cd_queue_free(queue: *mut Pair);
    pub fn culvert_cd_enqueue(queue: *mut Pair, jobs: *const Job, count: u16) -> u16;
    pub fn culvert_cd_dequeue(queue: *mut Pair, done: *mut Done, most: u16) -> u16;
    pub fn culvert_cd_release(done: *const Done, count: u16);
    pub fn culvert_cd_events_open(
        name: *const c_char,
        is_atomic: c_int,
        workers: u8,
        service: *mut u32,
    ) -> c_int;
    pub fn culvert_cd_events_close(id: u8);
    pub fn culvert_cd_events_schedule(service: u32);
    pub fn culvert_cd_events_put(id: u8, is_atomic: c_int, flow: u32, item: u64) -> c_int;
    pub fn culvert_cd_events_take(id: u8, port: u8, items: *mut [u64; 2], most: u16) -> u16;
    pub fn culvert_cd_events_finish(id: u8, port: u8, item: *const u64) -> c_int;
}
