//! Users of this machine, as `/etc/passwd` has them.

use std::fs;
use std::io;

/// Numbers of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// Id of the primary group.
    pub gid: u32,
}

/// The user of a name; `None` if there is none.
///
/// # Errors
/// When the file cannot be read.
pub fn find(name: &str) -> io::Result<Option<User>> {
    Ok(find_in(&fs::read_to_string("/etc/passwd")?, name))
}

/// `name:password:uid:gid:...`, a user a line (passwd(5)).
fn find_in(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        if name.is_empty() || fields.next() != Some(name) {
            return None;
        }
        let mut numbers = fields.skip(1).map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(uid)), Some(Ok(gid))) => Some(User { uid, gid }),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_numbers() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nculvert2:x:9:9::/:\nculvert:x:105:110::/nonexistent:/no\n\
                      broken:x:1\n:x:3:3::/:\n";
        assert_eq!(find_in(passwd, "culvert"), Some(User { uid: 105, gid: 110 }));
        assert_eq!(find_in(passwd, "root"), Some(User { uid: 0, gid: 0 }));
        for none in ["culver", "culvert22", "broken", "", "x"] {
            assert_eq!(find_in(passwd, none), None, "{none}");
        }
    }
}
