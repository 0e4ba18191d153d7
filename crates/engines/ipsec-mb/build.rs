//! Tells the crate whether the library was there when `ipsec-mb-sys` was built.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(ipsec_mb_present)");
    if std::env::var_os("DEP_IPSEC_MB_PRESENT").is_some() {
        println!("cargo:rustc-cfg=ipsec_mb_present");
    }
}
