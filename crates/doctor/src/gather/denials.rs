//! Looks for what AppArmor has denied: in the kernel's log, or in auditd's where that takes such messages.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::super::facts::Denial;

/// Each read gives one message (Documentation/ABI/testing/dev-kmsg).
const KERNEL_LOG: &str = "/dev/kmsg";
const AUDIT_LOG: &str = "/var/log/audit/audit.log";
/// The longest message of the kernel's log, and more.
const MOST_MESSAGE: usize = 8192;
/// The most that is read of the kernel's log, which has at most some megabytes itself.
const MOST_TEXT: usize = 16 << 20;
/// So much of the end of auditd's log is read.
const MOST_AUDIT: u64 = 4 << 20;

/// Denials of culvert's daemon, and of an IKE daemon in culvert's folders; each once. Empty where
/// the logs may not be read.
pub fn look() -> Vec<Denial> {
    let (kernel, audit) = (kernel_log().unwrap_or_default(), audit_log().unwrap_or_default());
    let lines = kernel.lines().chain(audit.lines());
    let denials: BTreeSet<Denial> = lines.filter_map(denial).filter(is_about_culvert).collect();
    denials.into_iter().collect()
}

fn is_about_culvert(denial: &Denial) -> bool {
    denial.is_of_daemon() || denial.object.contains("/culvert/")
}

/// All messages that the kernel still has.
fn kernel_log() -> io::Result<String> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    Ok(messages(OpenOptions::new().read(true).custom_flags(flags).open(KERNEL_LOG)?))
}

/// The text of a log that has one message a read, up to where it would block.
fn messages(mut log: impl Read) -> String {
    let (mut text, mut message) = (String::new(), [0; MOST_MESSAGE]);
    loop {
        match log.read(&mut message) {
            Ok(1..) if text.len() >= MOST_TEXT => return text,
            Ok(len @ 1..) => {
                text.push_str(&String::from_utf8_lossy(message.get(..len).unwrap_or_default()));
            }
            // Messages were overwritten before they were read (EPIPE); the next read goes on behind them.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            // There are no more.
            Ok(0) | Err(_) => return text,
        }
    }
}

fn audit_log() -> io::Result<String> {
    end_of(AUDIT_LOG.as_ref(), MOST_AUDIT)
}

/// The last bytes of a file.
fn end_of(path: &Path, most: u64) -> io::Result<String> {
    let len = fs::metadata(path)?.len();
    let mut log = File::open(path)?;
    log.seek(SeekFrom::Start(len.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    log.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// By a line as `... apparmor="DENIED" operation="open" profile="culvert" name="/etc/x" ...`.
fn denial(line: &str) -> Option<Denial> {
    let was_refused = match field(line, "apparmor")?.as_str() {
        "DENIED" => true,
        "ALLOWED" => false,
        _ => return None,
    };
    let object = ["name", "capname", "family"].iter().find_map(|key| field(line, key));
    Some(Denial {
        was_refused,
        profile: field(line, "profile")?,
        operation: field(line, "operation")?,
        object: object.unwrap_or_default(),
    })
}

/// A field's value. A name with other than plain characters is written in hexadecimal, without quotes.
fn field(line: &str, key: &str) -> Option<String> {
    let found = line.match_indices(key).find_map(|(at, _)| {
        let before = line.get(..at)?;
        let is_word = before.is_empty() || before.ends_with(' ');
        is_word.then(|| line.get(at + key.len()..)?.strip_prefix('=')).flatten()
    })?;
    if let Some(quoted) = found.strip_prefix('"') {
        return quoted.split('"').next().map(str::to_owned);
    }
    let word = found.split([' ', '\n']).next()?;
    let bytes: Option<Vec<u8>> = (0..word.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(word.get(at..at + 2)?, 16).ok())
        .collect();
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(line: &str) -> Option<(bool, String, String, String)> {
        denial(line).map(|d| (d.was_refused, d.profile, d.operation, d.object))
    }

    #[test]
    fn denials_of_files_capabilities_and_families() {
        let head = "5,812,1093,-;audit: type=1400 audit(1790000000.1:42): apparmor=";
        let some = |refused, profile: &str, operation: &str, object: &str| {
            Some((refused, profile.to_owned(), operation.to_owned(), object.to_owned()))
        };
        let rows = [
            (
                r#""DENIED" operation="open" class="file" profile="culvert" name="/etc/x" pid=7 comm="culvert""#,
                some(true, "culvert", "open", "/etc/x"),
            ),
            (
                r#""ALLOWED" operation="capable" profile="culvert" pid=7 capability=21  capname="sys_admin""#,
                some(false, "culvert", "capable", "sys_admin"),
            ),
            (
                r#""DENIED" operation="create" profile="culvert" pid=7 family="packet" sock_type="raw""#,
                some(true, "culvert", "create", "packet"),
            ),
            // "/a b"
            (
                r#""DENIED" operation="open" profile="culvert" name=2F612062 pid=7"#,
                some(true, "culvert", "open", "/a b"),
            ),
            (r#""STATUS" operation="profile_load" profile="unconfined" name="culvert""#, None),
            (r#""DENIED" operation="open""#, None),
        ];
        for (rest, expected) in rows {
            assert_eq!(seen(&format!("{head}{rest}\n")), expected, "{rest}");
        }
        assert_eq!(seen("5,1,2,-;eth0: link up"), None);
        // What a field's value says is no field.
        assert_eq!(field(r#"comm="profile=x" profile="y""#, "profile").as_deref(), Some("y"));
    }

    #[test]
    fn what_is_not_about_culvert_is_left_out() {
        let of = |profile: &str, object: &str| Denial {
            was_refused: true,
            profile: profile.into(),
            operation: "open".into(),
            object: object.into(),
        };
        assert!(is_about_culvert(&of("culvert", "/etc/x")));
        assert!(is_about_culvert(&of("culvert//null-/usr/bin/x", "/etc/x")));
        assert!(is_about_culvert(&of("/usr/sbin/charon", "/run/culvert/default/xfrm.sock")));
        assert!(!is_about_culvert(&of("/usr/sbin/charon", "/etc/x")));
        assert!(!is_about_culvert(&of("culverts", "/etc/x")));
    }

    /// A log that gives what it is told to, one a read, and would block then.
    struct Log(Vec<io::Result<&'static str>>);

    impl Read for Log {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let next = if self.0.is_empty() {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                self.0.remove(0)
            };
            let text = next?;
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }

    #[test]
    fn messages_are_read_up_to_where_the_log_would_block() {
        let overwritten = || Err(io::ErrorKind::BrokenPipe.into());
        let log = Log(vec![Ok("1;a\n"), overwritten(), Ok("3;c\n"), overwritten(), Ok("9;i\n")]);
        assert_eq!(messages(log), "1;a\n3;c\n9;i\n");
        assert_eq!(messages(Log(vec![Ok("1;a\n"), Ok(""), Ok("2;b\n")])), "1;a\n", "the end");
        assert_eq!(messages(Log(Vec::new())), "");
    }

    #[test]
    fn a_log_that_is_written_all_the_time_is_read_to_a_bound() {
        let text = messages(io::repeat(b'x'));
        assert_eq!(text.len(), MOST_TEXT);
    }

    #[test]
    fn of_auditds_log_the_end_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        fs::write(&path, "first\nsecond\n").unwrap();
        assert_eq!(end_of(&path, 7).unwrap(), "second\n");
        assert_eq!(end_of(&path, 100).unwrap(), "first\nsecond\n");
        assert!(end_of(&folder.path().join("none"), 7).is_err());
    }
}
