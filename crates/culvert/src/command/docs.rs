//! Man pages and completions, from the command line's definition.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;

/// Lists the instances of this machine, in words of any shell.
const INSTANCES: &str = "ls /run/culvert 2>/dev/null";

/// Section behind the generated part of each manual page.
const FILES: &str = "\
.SH FILES
.TP
.I /etc/culvert/culvert.toml
The configuration.
.TP
.I /run/culvert/NAME
An instance's sockets, and its SAs and policies, which outlive it.
.TP
.I /usr/share/doc/culvert
Guides, reference, recipes, and an example of a configuration with every key.
";

/// Writes `culvert.1`, `culvert-*.1` and the completions of three shells into a directory.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let command = Cli::command();
    clap_mangen::generate_to(command.clone(), directory)?;
    for file in fs::read_dir(directory)? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "1") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            fs::write(&path, manual(&name, &fs::read_to_string(&path)?))?;
        }
    }
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let path = clap_complete::generate_to(shell, &mut command.clone(), "culvert", directory)?;
        fs::write(&path, with_instances(shell, &fs::read_to_string(&path)?))?;
    }
    Ok(())
}

/// A page with what `clap` has no words for: examples as they are typed, files, and other pages.
fn manual(name: &str, generated: &str) -> String {
    // What follows the options stands last but the version.
    let (page, version) = generated.split_once(".SH VERSION").unwrap_or((generated, ""));
    let page = page.trim_end();
    let page = match page.split_once(".SH EXTRA\nExamples:\n") {
        Some((page, examples)) => format!("{page}.SH EXAMPLES\n.nf\n{examples}\n.fi"),
        None => page.replace(".SH EXTRA", ".SH NOTES"),
    };
    let others: Vec<_> = ["culvert(1)", "culvert-doctor(1)", "culvert-why(1)", "culvert.toml(5)"]
        .into_iter()
        .filter(|other| other.split('(').next() != Some(name))
        .chain(["swanctl(8)", "ip-xfrm(8)"])
        .map(|other| other.replace('-', "\\-").replacen('(', " (", 1))
        .collect();
    let see_also = format!(".SH SEE ALSO\n.BR {}\n", others.join(",\n.BR "));
    match version {
        "" => format!("{page}\n{FILES}{see_also}"),
        version => format!("{page}\n{FILES}{see_also}.SH VERSION{version}"),
    }
}

/// A completion that offers instances where `--name` wants one; `clap` offers files.
fn with_instances(shell: Shell, generated: &str) -> String {
    match shell {
        Shell::Bash => {
            let files = "COMPREPLY=($(compgen -f \"${cur}\"))";
            let instances = format!("COMPREPLY=($(compgen -W \"$({INSTANCES})\" -- \"${{cur}}\"))");
            let mut found = generated.to_owned();
            for option in ["--name", "-n"] {
                let case = format!("                {option})\n                    ");
                found = found.replace(&format!("{case}{files}"), &format!("{case}{instances}"));
            }
            found
        }
        Shell::Zsh => generated.replace(":NAME:_default", &format!(":NAME:($({INSTANCES}))")),
        _ => generated
            .lines()
            .map(|line| match line.contains(" -l name ") && line.ends_with(" -r") {
                true => format!("{line} -f -a '({INSTANCES})'\n"),
                false => format!("{line}\n"),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that is written, by the files' names.
    fn written() -> Vec<(String, String)> {
        let directory = std::env::temp_dir().join(format!("culvert-docs-{}", std::process::id()));
        write(&directory).expect("they are written");
        let found = fs::read_dir(&directory)
            .expect("a directory")
            .map(|file| file.expect("a file").path())
            .map(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                (name, fs::read_to_string(&path).expect("text"))
            })
            .collect();
        fs::remove_dir_all(&directory).expect("it is removed");
        found
    }

    #[test]
    fn pages_lead_on_and_completions_know_instances() {
        let files = written();
        let pages: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".1")).collect();
        assert!(pages.len() > 20, "{}", pages.len());
        for (name, page) in pages {
            let sections: Vec<_> = page.lines().filter(|line| line.starts_with(".SH ")).collect();
            let is_at = |wanted: &str| sections.iter().position(|section| *section == wanted);
            assert!(is_at(".SH FILES").is_some(), "{name}: {sections:?}");
            assert!(
                is_at(".SH FILES") < is_at(".SH \"SEE ALSO\"").or(is_at(".SH SEE ALSO")),
                "{name}"
            );
            assert_eq!(is_at(".SH EXTRA"), None, "{name}");
            assert!(page.contains(".BR culvert.toml (5)"), "{name}");
            let own = format!(".BR {} (1)", name.trim_end_matches(".1").replace('-', "\\-"));
            assert!(!page.contains(&own), "{name} leads to itself");
        }
        let (_, why) = files.iter().find(|(name, _)| name == "culvert-why.1").expect("a page");
        assert!(why.contains(".SH EXAMPLES\n.nf\n  culvert why"), "{why}");
        for shell in ["culvert.bash", "_culvert", "culvert.fish"] {
            let (_, text) = files.iter().find(|(name, _)| name == shell).expect("a completion");
            let known = text.matches(INSTANCES).count();
            assert!(known > 20, "{shell}: {known} times");
            assert!(!text.contains(":NAME:_default"), "{shell}");
        }
    }
}
