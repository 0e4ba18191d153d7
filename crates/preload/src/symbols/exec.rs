//! Functions that start another program: rules of `iptables` that match IPsec are translated
//! (`policy_match`), and strongSwan's scripts get the library too, and culvert's interface in place of
//! the peer's.
//!
//! They are called between `fork` or `vfork` and `exec`, where another thread may have held any lock:
//! nothing here allocates or takes a lock, and all data is on the stack. `execve` and `execv` are
//! made by number; the others, which shells and IKE daemons do not use there, are the C library's.
//!
//! Not seen: `execl` and its like, `fexecve`, and what a program without this library starts.

use std::ffi::{CStr, c_char, c_int};

use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t};

use crate::policy_match::{MAX_ARGS, MAX_WORDS, Word, Words, rules_begin, translate};
use crate::sys;

/// A list of strings that ends with a null pointer, as C has it.
type Strings = *const *const c_char;

unsafe extern "C" {
    #[link_name = "environ"]
    static ENVIRON: Strings;
}

/// `execve(2)`, with arguments and environment rewritten for the new program.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn execve(path: *const c_char, argv: Strings, envp: Strings) -> c_int {
    with_arguments(path, argv, envp, |argv, envp| {
        // SAFETY: as the caller vouches for.
        let r = unsafe { libc::syscall(libc::SYS_execve, path, argv, envp) };
        r as c_int
    })
}

/// `execv(3)`, with arguments and environment rewritten for the new program.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn execv(path: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the environment is the process's; as the caller vouches for.
    unsafe { execve(path, argv, ENVIRON) }
}

/// `execvp(3)`, with arguments and environment rewritten for the new program.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn execvp(file: *const c_char, argv: Strings) -> c_int {
    // SAFETY: the environment is the process's.
    let environment = unsafe { ENVIRON };
    with_arguments(
        file,
        argv,
        environment,
        |argv, _| libc_call!(c"execvp": fn(file => *const c_char, argv => Strings) -> c_int),
    )
}

/// `execvpe(3)`, with arguments and environment rewritten for the new program.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn execvpe(
    file: *const c_char,
    argv: Strings,
    envp: Strings,
) -> c_int {
    with_arguments(
        file,
        argv,
        envp,
        |argv, envp| libc_call!(c"execvpe": fn(file => *const c_char, argv => Strings, envp => Strings) -> c_int),
    )
}

/// `posix_spawn(3)`, with arguments and environment rewritten for the new program.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: Strings,
    envp: Strings,
) -> c_int {
    with_arguments(
        path,
        argv,
        envp,
        |argv, envp| libc_call!(c"posix_spawn": fn(pid => *mut pid_t, path => *const c_char, actions => *const posix_spawn_file_actions_t, attributes => *const posix_spawnattr_t, argv => Strings, envp => Strings) -> c_int),
    )
}

/// `posix_spawnp(3)`, with arguments and environment rewritten for the new program.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const posix_spawn_file_actions_t,
    attributes: *const posix_spawnattr_t,
    argv: Strings,
    envp: Strings,
) -> c_int {
    with_arguments(
        file,
        argv,
        envp,
        |argv, envp| libc_call!(c"posix_spawnp": fn(pid => *mut pid_t, file => *const c_char, actions => *const posix_spawn_file_actions_t, attributes => *const posix_spawnattr_t, argv => Strings, envp => Strings) -> c_int),
    )
}

/// Calls `start` with the arguments and the environment that the program is to get.
fn with_arguments(
    path: *const c_char,
    argv: Strings,
    envp: Strings,
    start: impl FnOnce(Strings, Strings) -> c_int,
) -> c_int {
    // SAFETY: the caller's list.
    let envp_list = unsafe { List::new(envp) };
    // SAFETY: the C library's variable, which is always there.
    let environment = unsafe { ENVIRON };
    // SAFETY: the process's list.
    let own = unsafe { List::new(environment) };
    let Some(socket) = own.value(SOCKET) else { return start(argv, envp) };
    let keeps = envp_list.value(CHOICE).or(own.value(CHOICE)) == Some(b"keep");
    let mut script = [std::ptr::null(); MAX_ENVIRONMENT];
    let mut assigned = [0; INTERFACE.len() + NAME_LEN];
    let interface = || script_interface(socket, &mut assigned).filter(|_| !keeps);
    if script_environment(envp_list, own, interface, &mut script) {
        return start(argv, script.as_ptr());
    }
    if path.is_null() || keeps {
        return start(argv, envp);
    }
    // SAFETY: the caller's string.
    let file = unsafe { CStr::from_ptr(path) }.to_bytes();
    let mut args: [&[u8]; MAX_ARGS] = [&[]; MAX_ARGS];
    // SAFETY: the caller's list.
    let list = unsafe { List::new(argv) };
    let Some(args) = list.strings(&mut args) else { return start(argv, envp) };
    let mut words = Words::new();
    let mut name = [0; NAME_LEN];
    let is_translated = rules_begin(file, args)
        .is_some_and(|from| translate(args, from, &mut words))
        && private_interface(socket, &mut name);
    let mut pointers = [std::ptr::null(); MAX_WORDS + 1];
    if !is_translated || words.as_slice().len() >= pointers.len() {
        return start(argv, envp);
    }
    for (to, word) in pointers.iter_mut().zip(words.as_slice()) {
        *to = match word {
            Word::Old(at) => list.pointer(*at),
            Word::New(word) => word.as_ptr(),
            Word::Private => name.as_ptr().cast(),
        };
    }
    start(pointers.as_ptr(), envp)
}

/// strongSwan gives its scripts an environment of their own, in which nothing of this library is left:
/// adds what leads `ip xfrm` and `iptables` in them to culvert, and names `interface` as that of their tunnel,
/// unless it has one of its own. False for everybody else.
fn script_environment(
    given: List<'_>,
    own: List<'_>,
    interface: impl FnOnce() -> Option<*const c_char>,
    out: &mut [*const c_char],
) -> bool {
    if given.value(SCRIPT).is_none() || given.value(PRELOAD).is_some() {
        return false;
    }
    let ours = own.iter().filter(|(_, text)| {
        text.starts_with(PRELOAD) || text.starts_with(CULVERT) && !given.has_same_name(text)
    });
    let interface = if given.value(TUNNEL).is_none() { interface() } else { None };
    for (place, (pointer, text)) in given.iter().chain(ours).enumerate() {
        let pointer = interface.filter(|_| text.starts_with(INTERFACE)).unwrap_or(pointer);
        // One place is for the end.
        match out.get_mut(place..) {
            Some([to, _, ..]) => *to = pointer,
            _ => return false,
        }
    }
    true
}

/// Assignment for a script's variable of its tunnel's interface: `PLUTO_INTERFACE=culvert0`, with a
/// zero behind it.
fn script_interface(
    socket: &[u8],
    assigned: &mut [u8; INTERFACE.len() + NAME_LEN],
) -> Option<*const c_char> {
    let (variable, name) = assigned.split_first_chunk_mut::<{ INTERFACE.len() }>()?;
    variable.copy_from_slice(INTERFACE);
    let is_known = private_interface(socket, name.first_chunk_mut()?);
    is_known.then_some(assigned.as_ptr().cast())
}

/// The private interface's name, which the daemon writes beside its socket, with a zero behind it.
fn private_interface(socket: &[u8], name: &mut [u8; NAME_LEN]) -> bool {
    let mut path = [0u8; 128];
    let folder = socket.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    let file = socket.iter().take(folder).chain(INTERFACE_FILE);
    let mut len = 0;
    for (to, from) in path.iter_mut().zip(file) {
        *to = *from;
        len += 1;
    }
    // It ends with a zero.
    if len != folder + INTERFACE_FILE.len() || len >= path.len() {
        return false;
    }
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    let Some(room) = name.get_mut(..NAME_LEN - 1) else { return false };
    let Ok(len) = sys::read_file(path, room) else { return false };
    let end = name.iter().take(len).position(|b| b.is_ascii_whitespace() || *b == 0);
    let end = end.unwrap_or(len);
    if let Some(rest) = name.get_mut(end..) {
        rest.fill(0);
    }
    end > 0
}

/// A list of strings.
#[derive(Clone, Copy)]
struct List<'a> {
    first: Strings,
    lives: std::marker::PhantomData<&'a [u8]>,
}

impl<'a> List<'a> {
    /// # Safety
    ///
    /// A null pointer, or a list that ends with one; list and strings live as long as this.
    const unsafe fn new(first: Strings) -> List<'a> {
        List { first, lives: std::marker::PhantomData }
    }

    /// The pointer at a place that is not behind the end; null if there is no list.
    fn pointer(self, at: usize) -> *const c_char {
        if self.first.is_null() {
            return std::ptr::null();
        }
        // SAFETY: the list is as long, by the contract of `new` and of this.
        let place = unsafe { self.first.add(at) };
        // SAFETY: as above.
        unsafe { *place }
    }

    fn iter(self) -> impl Iterator<Item = (*const c_char, &'a [u8])> {
        let pointers = (0..).map(move |at| self.pointer(at));
        let pointers = pointers.take_while(|pointer| !pointer.is_null());
        // SAFETY: a string that lives as long, by the contract of `new`.
        pointers.map(|pointer| (pointer, unsafe { CStr::from_ptr(pointer) }.to_bytes()))
    }

    /// The strings of the list, if they fit.
    fn strings<'b>(self, out: &'b mut [&'a [u8]]) -> Option<&'b [&'a [u8]]> {
        let mut len = 0;
        for (_, text) in self.iter() {
            *out.get_mut(len)? = text;
            len += 1;
        }
        out.get(..len)
    }

    /// The value of a variable; the name is given with its equals sign.
    fn value(self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find_map(|(_, text)| text.strip_prefix(name))
    }

    /// True if it has a variable of the same name.
    fn has_same_name(self, other: &[u8]) -> bool {
        let end = other.iter().position(|b| *b == b'=').map_or(other.len(), |at| at + 1);
        other.get(..end).is_some_and(|name| self.value(name).is_some())
    }
}

const SOCKET: &[u8] = b"CULVERT_XFRM_SOCKET=";
const CHOICE: &[u8] = b"CULVERT_POLICY_MATCH=";
const CULVERT: &[u8] = b"CULVERT_";
const PRELOAD: &[u8] = b"LD_PRELOAD=";

/// Variable that every script of strongSwan's `updown` finds in its environment.
const SCRIPT: &[u8] = b"PLUTO_VERB=";

/// The interface by which a tunnel's packets come and go in clear. strongSwan says the one that leads to the peer.
const INTERFACE: &[u8] = b"PLUTO_INTERFACE=";

/// Where a tunnel has an interface of its own.
const TUNNEL: &[u8] = b"PLUTO_IF_ID_";

/// Beside the daemon's socket.
const INTERFACE_FILE: &[u8] = b"interface";

/// Of an interface, with a zero behind it (IFNAMSIZ).
const NAME_LEN: usize = 16;

/// The most variables of a script, with the end.
const MAX_ENVIRONMENT: usize = 512;
