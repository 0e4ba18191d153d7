//! With the feature `dpdk`: compiles the shim against DPDK's headers and links its libraries.

use std::env;
use std::process::{Command, exit};

/// DPDK libraries that the shim calls. Drivers are not linked: DPDK loads those that are installed.
const LIBRARIES: [&str; 6] =
    ["rte_cryptodev", "rte_eal", "rte_eventdev", "rte_mbuf", "rte_mempool", "rte_ring"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=shim");
    if env::var_os("CARGO_FEATURE_DPDK").is_none() {
        return;
    }
    let flags = ask(&["--cflags", "libdpdk >= 22.11"]);
    let mut shim = cc::Build::new();
    shim.files(["shim/start.c", "shim/device.c", "shim/queue.c", "shim/events.c"]).std("gnu11");
    // DPDK's headers are not free of warnings of their own.
    for flag in flags.split_whitespace() {
        match flag.strip_prefix("-I") {
            Some(folder) => shim.flag("-isystem").flag(folder),
            None => shim.flag(flag),
        };
    }
    shim.extra_warnings(true).compile("culvert_cd");
    for flag in ask(&["--libs-only-L", "libdpdk"]).split_whitespace() {
        println!("cargo:rustc-link-search=native={}", flag.trim_start_matches("-L"));
    }
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

/// Answer of pkg-config about DPDK.
fn ask(arguments: &[&str]) -> String {
    match Command::new("pkg-config").args(arguments).output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).into_owned()
        }
        Ok(output) => {
            fail(&format!("pkg-config says:\n{}", String::from_utf8_lossy(&output.stderr)))
        }
        Err(error) => fail(&format!("pkg-config could not be started: {error}")),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("The feature dpdk needs DPDK 22.11 or newer (Debian: libdpdk-dev). {message}");
    exit(1)
}
