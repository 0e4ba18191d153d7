//! The fast crypto engine for SM4 (GB/T 32907) and SM3 (GB/T 32905): SM4-GCM (RFC 8998), and SM4-CBC, SM4-CTR or NULL
//! with HMAC-SM3.
//!
//! Which implementation runs is decided once, by what the processor has (`isa.rs`):
//!
//! | | SM4 | SM3 | GHASH |
//! |---|---|---|---|
//! | portable | 16 blocks, the S-box computed in bit slices | 16 messages, one after the other | integer products with holes |
//! | AVX2 | 32 blocks, the S-box by way of AES's | 8 messages side by side | PCLMULQDQ |
//! | VAES | likewise, two lanes an instruction | likewise | VPCLMULQDQ, two blocks an instruction |
//! | AVX-512 | 64 blocks, the S-box by GFNI's inversion | 16 messages side by side | VPCLMULQDQ, four blocks |
//!
//! Work that depends on the block before it, CBC's encryption and hashing, runs over the packets of a burst side by
//! side, whichever SAs they are of (`cbc`, `hmac`); all else over the blocks of one packet (`ctr`, `gcm`).
//!
//! # Time and secrets
//!
//! No branch and no address depends on a key or on text: no table is read at a secret place, and what of a packet is compared is
//! compared whole (`tag`). The S-box is arithmetic everywhere. GHASH's portable version takes it that the processor multiplies
//! 64-bit numbers in constant time, which those of today with Rust's 64-bit targets do. What does show is public: lengths, suites, and
//! which packets have the right ICV. `cargo run --release -p culvert-engine-gm --example leak` measures the portable version.
//!
//! # Keys
//!
//! A [`crypto::Session`] holds the expanded keys and HMAC's two states and zeroises them when it is dropped. An engine keeps the
//! round keys of the packets of a burst while it runs, and zeroises them before it returns.
mod cbc;
mod check;
mod ctr;
mod engine;
mod fields;
mod gcm;
mod ghash;
mod hmac;
mod isa;
mod provider;
mod sm3;
mod sm4;
mod state;
mod tag;
#[cfg(target_arch = "x86_64")]
mod transpose;

pub use provider::GmProvider;

/// The engine's name.
const NAME: &str = "gm";
