//! Compiles the shim if the library's header is there; else the crate is built without bindings.
//!
//! Debian's package has no pkg-config file, so the header is the probe.

use std::env;
use std::path::Path;

const DPKG_STATUS: &str = "/var/lib/dpkg/status";

fn main() {
    println!("cargo:rerun-if-changed=shim");
    println!("cargo:rerun-if-changed=/usr/include/intel-ipsec-mb.h");
    println!("cargo:rustc-check-cfg=cfg(ipsec_mb_present)");

    // The library exists for x86-64 only.
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return;
    }
    let probe = cc::Build::new().file("shim/probe.c").cargo_warnings(false).try_expand();
    if probe.is_err() {
        // A header that is installed later is older than this build: only the list of packages tells.
        if Path::new(DPKG_STATUS).exists() {
            println!("cargo:rerun-if-changed={DPKG_STATUS}");
        }
        println!(
            "cargo:warning=libipsec-mb-dev (1.3 or newer) not found: the ipsec-mb engine will be unavailable"
        );
        return;
    }
    cc::Build::new()
        .files(["shim/shim.c", "shim/jobs.c", "shim/bare.c"])
        .std("c11")
        .extra_warnings(true)
        .compile("culvert_mb");
    println!("cargo:rustc-link-lib=dylib=IPSec_MB");
    println!("cargo:rustc-cfg=ipsec_mb_present");
    // For the build scripts of crates that depend on this one.
    println!("cargo:present=1");
}
