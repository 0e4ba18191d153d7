//! Compiles the BPF programs with clang; the objects are embedded in the library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| installed());
    println!("cargo:rerun-if-changed=bpf/alive.h");
    println!("cargo:rerun-if-changed=bpf/maps.h");
    for name in ["steer", "tags", "packet", "back", "marks", "detour", "sender"] {
        compile(&clang, name);
    }
}

/// Compiles `bpf/NAME.bpf.c` to `NAME.bpf.o`.
fn compile(clang: &str, name: &str) {
    let source = format!("bpf/{name}.bpf.c");
    println!("cargo:rerun-if-changed={source}");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let out = out.join(format!("{name}.bpf.o"));
    let mut command = Command::new(clang);
    command.args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"]);
    // The headers' paths must not be in the object: builds are to be the same everywhere.
    command.args(["-fdebug-compilation-dir=.", "-c", &source, "-o"]).arg(&out);
    // Debian keeps <asm/types.h> per architecture, and clang does not look there for this target.
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    for arch in [arch.as_str(), "x86_64", "aarch64"] {
        let include = format!("/usr/include/{arch}-linux-gnu");
        if Path::new(&include).join("asm/types.h").exists() {
            command.arg(format!("-I{include}"));
            break;
        }
    }
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr);
            let hint = if message.contains("bpf/bpf_") {
                "\n\nThe headers of libbpf are missing: install the package libbpf-dev."
            } else if message.contains("linux/") || message.contains("asm/") {
                "\n\nThe kernel's headers are missing: install the package linux-libc-dev."
            } else {
                ""
            };
            fail(&format!("{clang} could not compile {source}:\n{message}{hint}"));
        }
        Err(error) => fail(&format!(
            "{clang} could not be started: {error}\n\nThe programs are written in C: install the \
             packages clang and libbpf-dev, or name another clang in the variable CLANG."
        )),
    }
}

/// The clang to use: the unversioned one, or the newest that only has its version in its name, as
/// Debian's packages `clang-14` and alike do.
fn installed() -> String {
    let starts = |name: &String| Command::new(name).arg("--version").output().is_ok();
    let versioned = (11..=30).rev().map(|version| format!("clang-{version}"));
    let mut names = std::iter::once("clang".to_owned()).chain(versioned);
    names.find(starts).unwrap_or_else(|| "clang".to_owned())
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(1)
}
