//! Rights that a server gives up before it serves anybody.

use std::error::Error;
use std::io;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use control::users::{self, User};
use control::{confine_server, drop_capabilities, forgo_capabilities};

/// Gives up root's name, every capability, and all system calls but those that serving takes. To be called before a
/// thread is made, as all of that belongs to threads.
///
/// # Errors
/// When something cannot be given up. Where there is no such user, or no filter, that is said, and the rest is done.
pub fn become_server(command: &str, user: &str) -> Result<(), Box<dyn Error>> {
    forgo_capabilities();
    if geteuid().is_root() {
        match users::find(user)? {
            Some(found) => become_user(found).map_err(|e| format!("becoming {user}: {e}"))?,
            None => eprintln!(
                "culvert {command}: there is no user {user}, so this runs as root, and may ask for keys\n  \
                 adduser --system --group --no-create-home {user}, or another one by --user and security.reader"
            ),
        }
    }
    drop_capabilities()?;
    if let Err(why) = confine_server() {
        eprintln!("culvert {command}: no system call is forbidden: {why}");
    }
    Ok(())
}

/// Takes the user's identity and group, and no other group's.
fn become_user(user: User) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_groups(&[gid])?;
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}
