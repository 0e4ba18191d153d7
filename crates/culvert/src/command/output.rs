//! Where a capture goes: a file, a pipe, or files one after the other.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Stdout, Write};
use std::path::{Path, PathBuf};

use control::files::{FileError, open_secret};

/// Files that follow one another.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The next begins when a file would be longer than this, in bytes.
    pub size: u64,
    /// How many are kept; none: all.
    pub files: Option<usize>,
}

/// Writer of a capture's blocks, in one file or several.
pub struct Output {
    path: PathBuf,
    /// The file that is open, or could not be opened.
    current: PathBuf,
    rotation: Option<Rotation>,
    to: Option<To>,
    /// First blocks of each file.
    head: Vec<u8>,
    written: u64,
    number: u32,
    kept: VecDeque<PathBuf>,
}

enum To {
    File(File),
    Pipe(Stdout),
}

impl Output {
    /// To a file, or to standard output, which is `-`.
    pub fn new(path: &Path, rotation: Option<Rotation>) -> Output {
        let (to, head) = (None, Vec::new());
        Output {
            path: path.into(),
            current: path.into(),
            rotation,
            to,
            head,
            written: 0,
            number: 0,
            kept: VecDeque::new(),
        }
    }

    /// The file that is written.
    pub fn current(&self) -> &Path {
        &self.current
    }

    /// A block that describes the file.
    pub fn add_head(&mut self, block: &[u8]) -> io::Result<()> {
        self.head.extend_from_slice(block);
        if self.to.is_some() { self.write(block) } else { Ok(()) }
    }

    /// A packet; the first of another file, where it does not fit this one.
    pub fn add_packet(&mut self, block: &[u8]) -> io::Result<()> {
        let is_full = self.rotation.is_some_and(|rotation| {
            let is_first = self.written <= self.head.len() as u64;
            !is_first && self.written + block.len() as u64 > rotation.size
        });
        if is_full {
            self.to = None;
        }
        self.add(block)
    }

    /// Any other block.
    pub fn add(&mut self, block: &[u8]) -> io::Result<()> {
        self.open()?;
        self.write(block)
    }

    /// Flushes, so that the blocks can be read.
    pub fn flush(&mut self) -> io::Result<()> {
        self.open()?;
        match &mut self.to {
            Some(To::Pipe(pipe)) => pipe.flush(),
            _ => Ok(()),
        }
    }

    /// There is nothing more.
    pub fn end(mut self) -> io::Result<()> {
        self.flush()
    }

    /// Begins a file, if none is open.
    fn open(&mut self) -> io::Result<()> {
        if self.to.is_some() {
            return Ok(());
        }
        self.written = 0;
        self.to = Some(if self.path.as_os_str() == "-" {
            To::Pipe(io::stdout())
        } else {
            let path = match self.rotation {
                Some(_) => self.numbered(),
                None => self.path.clone(),
            };
            self.current.clone_from(&path);
            // It holds what is encrypted elsewhere.
            let file = open_secret(&path).map_err(|error| match error {
                // Who writes names the file.
                FileError::Io { source, .. } => source,
                refused => io::Error::other(refused),
            })?;
            self.kept.push_back(path);
            To::File(file)
        });
        if let Some(files) = self.rotation.and_then(|rotation| rotation.files) {
            while self.kept.len() > files {
                // One that somebody else has removed is gone all the same.
                let _ = self.kept.pop_front().map(std::fs::remove_file);
            }
        }
        let head = std::mem::take(&mut self.head);
        let written = self.write(&head);
        self.head = head;
        written
    }

    fn write(&mut self, block: &[u8]) -> io::Result<()> {
        self.written += block.len() as u64;
        match &mut self.to {
            Some(To::File(file)) => file.write_all(block),
            Some(To::Pipe(pipe)) => pipe.write_all(block),
            None => Ok(()),
        }
    }

    /// `wan.pcapng` as `wan-00001.pcapng`, and so on.
    fn numbered(&mut self) -> PathBuf {
        self.number += 1;
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let mut name = format!("{stem}-{:05}", self.number);
        if let Some(extension) = self.path.extension() {
            name += &format!(".{}", extension.to_string_lossy());
        }
        self.path.with_file_name(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(directory: &Path) -> Vec<(String, String)> {
        let mut files: Vec<_> = std::fs::read_dir(directory)
            .expect("a directory")
            .map(|entry| {
                let entry = entry.expect("an entry");
                let name = entry.file_name().into_string().expect("a name");
                (name, std::fs::read_to_string(entry.path()).expect("a file"))
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn each_file_has_the_head_and_as_many_packets_as_fit() {
        let directory = tempfile::tempdir().expect("a directory");
        let rotation = Rotation { size: 10, files: Some(2) };
        let mut output = Output::new(&directory.path().join("wan.pcapng"), Some(rotation));
        output.add_head(b"hea").expect("written");
        output.add_head(b"d.").expect("written");
        for packet in ["aa", "bbb", "cccccccccccc", "dd", "e", "ff"] {
            output.add_packet(packet.as_bytes()).expect("written");
        }
        output.end().expect("written");
        let file = |number: u32, text: &str| (format!("wan-{number:05}.pcapng"), text.to_owned());
        // One that is longer than a file may be has one of its own; of three files two are kept.
        assert_eq!(files(directory.path()), [file(2, "head.cccccccccccc"), file(3, "head.ddeff")]);
    }

    #[test]
    fn a_capture_without_packets_is_a_file_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut output = Output::new(&directory.path().join("x"), None);
        output.add_head(b"head").expect("written");
        output.end().expect("written");
        assert_eq!(files(directory.path()), [("x".to_owned(), "head".to_owned())]);
    }
}
