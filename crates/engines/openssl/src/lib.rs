//! The portable crypto engine, on OpenSSL 3.
//!
//! It implements every [`crypto::Suite`] on every architecture that OpenSSL runs on, and it is what
//! other engines are compared with. It is not the fast one: EVP costs several hundred cycles a
//! packet before the first byte is encrypted. Camellia, DES, 3DES and MD5 are there where the build of OpenSSL
//! and its provider have them.
//!
//! Keys: a [`crypto::Session`] holds them and zeroises them when it is dropped. An engine's cipher
//! contexts hold expanded keys only during [`crypto::Engine::run`]; before it returns they are
//! keyed with zeros.
#![forbid(unsafe_code)]

mod aead;
mod cbc_mac;
mod cipher;
mod engine;
mod hmac;
mod mac;
mod md5;
mod provider;
mod separate;
mod state;
mod tag;

pub use provider::OpensslProvider;

/// The engine's name.
const NAME: &str = "openssl";
