//! The portable crypto engine, on OpenSSL 3.
//!
//! It implements nearly every [`crypto::Suite`] on every architecture that OpenSSL runs on, and it is what
//! other engines are compared with. It is not the fast one: EVP costs several hundred cycles a
//! packet before the first byte is encrypted. Camellia, DES, 3DES, MD5, SM4 and SM3 are there where the build of
//! OpenSSL and its provider have them; SM4-GCM since OpenSSL 3.1.
//!
//! Keys: a [`crypto::Session`] holds them and zeroises them when it is dropped. An engine's cipher
//! contexts hold expanded keys only during [`crypto::Engine::run`]; before it returns they are
//! keyed with zeros.
#![forbid(unsafe_code)]

mod aead;
mod cbc_mac;
mod cipher;
mod digest;
mod engine;
mod hmac;
mod mac;
mod provider;
mod separate;
mod state;
mod tag;

pub use provider::OpensslProvider;

/// The engine's name.
const NAME: &str = "openssl";
