//! The file that lists the installed barriers, for the next process.
//!
//! One line for each barrier that is about to be installed or was removed, so that a change costs
//! one line, however many are installed. The file is rewritten when most lines are void. A last line
//! that was cut short is ignored: its barrier was not installed yet, or is gone and stays listed.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::barrier::Barrier;

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Step {
    /// The barrier is about to be installed.
    Up,
    /// The barrier was removed.
    Down,
}

/// The list, open for appending.
#[derive(Debug)]
pub(crate) struct List {
    path: PathBuf,
    /// Bytes of whole lines; the file may be longer after a write that failed.
    sound: u64,
    lines: usize,
}

impl List {
    /// Reads the list; changes nothing. Returns the installed barriers by identity.
    ///
    /// # Errors
    /// When it cannot be read, or holds what no guard has written.
    pub fn open(path: PathBuf) -> io::Result<(List, HashMap<Barrier, Barrier>)> {
        let mut bytes = Vec::new();
        match no_link().read(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            file => drop(file?.read_to_end(&mut bytes)?),
        }
        let mut list = List { path, sound: 0, lines: 0 };
        let mut standing = HashMap::new();
        for line in bytes.split_inclusive(|b| *b == b'\n').filter(|l| l.ends_with(b"\n")) {
            let (step, barrier): (Step, Barrier) = serde_json::from_slice(line)?;
            match step {
                Step::Up => standing.insert(barrier.identity(), barrier),
                Step::Down if standing.get(&barrier.identity()) == Some(&barrier) => {
                    standing.remove(&barrier.identity())
                }
                // It was replaced before.
                Step::Down => None,
            };
            list.sound += line.len() as u64;
            list.lines += 1;
        }
        Ok((list, standing))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds lines, all or none.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn append<'a>(
        &mut self,
        step: Step,
        barriers: impl IntoIterator<Item = &'a Barrier>,
    ) -> io::Result<()> {
        let (bytes, lines) = encoded(step, barriers)?;
        if lines == 0 {
            return Ok(());
        }
        let mut file = private().append(true).create(true).open(&self.path)?;
        file.set_len(self.sound)?;
        if let Err(error) = file.write_all(&bytes) {
            // If this fails too, the next one cuts it.
            let _ = file.set_len(self.sound);
            return Err(error);
        }
        self.sound += bytes.len() as u64;
        self.lines += lines;
        Ok(())
    }

    /// Removes the file if nothing is installed, and rewrites it if most of its lines are void.
    ///
    /// # Errors
    /// When the file system refuses; the list is as good as before.
    pub fn tidy<'a>(
        &mut self,
        standing: impl ExactSizeIterator<Item = &'a Barrier>,
    ) -> io::Result<()> {
        if standing.len() == 0 {
            match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            (self.sound, self.lines) = (0, 0);
            return Ok(());
        }
        if self.lines <= 2 * standing.len() + VOID_LINES {
            return Ok(());
        }
        let next = self.path.with_extension("next");
        let (bytes, lines) = encoded(Step::Up, standing)?;
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            // A process that died has left it.
            _ => {}
        }
        let mut file = private().write(true).create_new(true).open(&next)?;
        file.write_all(&bytes)?;
        fs::rename(&next, &self.path)?;
        (self.sound, self.lines) = (bytes.len() as u64, lines);
        Ok(())
    }
}

/// Void lines that are tolerated in any case.
const VOID_LINES: usize = 1024;

/// Opens what a name leads to at once, and nothing that somebody has made it lead to.
fn no_link() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.custom_flags(libc::O_NOFOLLOW);
    options
}

fn private() -> fs::OpenOptions {
    let mut options = no_link();
    options.mode(0o600);
    options
}

fn encoded<'a>(
    step: Step,
    barriers: impl IntoIterator<Item = &'a Barrier>,
) -> io::Result<(Vec<u8>, usize)> {
    let (mut bytes, mut lines) = (Vec::new(), 0);
    for barrier in barriers {
        serde_json::to_writer(&mut bytes, &(step, barrier))?;
        bytes.push(b'\n');
        lines += 1;
    }
    Ok((bytes, lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Prefix;

    fn barrier(net: u8) -> Barrier {
        let [out, ..] = Barrier::of_prefix(Prefix { addr: [10, net, 0, 0].into(), len: 16 });
        out
    }

    fn standing(path: &Path) -> Vec<Barrier> {
        let (_, standing) = List::open(path.to_owned()).unwrap();
        let mut barriers: Vec<_> = standing.into_values().collect();
        barriers.sort_by_key(Barrier::to_string);
        barriers
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, precious) =
            (directory.path().join("guard.json"), directory.path().join("precious"));
        fs::write(&precious, "").unwrap();
        let (mut list, _) = List::open(path.clone()).unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        assert!(list.append(Step::Up, [&barrier(1)]).is_err());
        assert!(List::open(path.clone()).is_err());
        fs::remove_file(&path).unwrap();
        // Many void lines have it written anew.
        std::os::unix::fs::symlink(&precious, path.with_extension("next")).unwrap();
        let barrier = barrier(1);
        list.append(Step::Up, vec![&barrier; VOID_LINES + 3]).unwrap();
        list.tidy([&barrier].into_iter()).unwrap();
        assert_eq!((list.lines, fs::read(&precious).unwrap().len()), (1, 0));
        assert_eq!(standing(&path), [barrier]);
    }

    #[test]
    fn a_line_that_was_not_finished_does_not_count_and_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        let (mut list, _) = List::open(path.clone()).unwrap();
        list.append(Step::Up, &[barrier(1), barrier(2)]).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        assert_eq!(standing(&path), [barrier(1)]);
        let (mut list, _) = List::open(path.clone()).unwrap();
        list.append(Step::Up, &[barrier(3)]).unwrap();
        assert_eq!(standing(&path), [barrier(1), barrier(3)]);
    }

    #[test]
    fn it_stays_short_and_goes_when_nothing_stands() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("list");
        let (mut list, _) = List::open(path.clone()).unwrap();
        list.append(Step::Up, &[barrier(1)]).unwrap();
        for _ in 0..3000 {
            list.append(Step::Up, &[barrier(2)]).unwrap();
            list.append(Step::Down, &[barrier(2)]).unwrap();
            list.tidy([barrier(1)].iter()).unwrap();
        }
        assert!(fs::read(&path).unwrap().iter().filter(|b| **b == b'\n').count() < 1100);
        assert_eq!(standing(&path), [barrier(1)]);
        list.append(Step::Down, &[barrier(1)]).unwrap();
        list.tidy([].iter()).unwrap();
        assert!(!path.exists());
    }
}
