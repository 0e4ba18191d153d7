//! `crypto.engine`: which crypto engine works.

/// Which crypto engine works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineChoice {
    /// ipsec-mb where it is there, else OpenSSL; for SM4 and SM3 culvert's own.
    #[default]
    Auto,
    /// Intel's multi-buffer library, or an error.
    IpsecMb,
    /// By the library OpenSSL.
    Openssl,
}
