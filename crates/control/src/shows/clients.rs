//! Clients at the daemon's sockets: their questions, and their commands.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::mpsc::Sender;

use report::Request;

use super::control::{Control, Listening, Question, Reply};

/// The sockets, and what clients want.
pub struct Clients {
    /// The socket of root's, by which questions of all come.
    pub control: Control,
    /// The socket of those who only read, where there is one.
    _reader: Option<Listening>,
    /// Commands that the next round carries out.
    commands: Vec<Question>,
}

impl Clients {
    /// Nobody has asked yet.
    pub fn new(control: Control, reader: Option<Listening>) -> Clients {
        Clients { control, _reader: reader, commands: Vec::new() }
    }

    /// Readable when somebody asks.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// True if a command waits for the next round, which follows at once.
    pub fn have_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    /// Takes the questions that clients have; their commands are kept.
    pub fn questions(&mut self) -> Vec<Question> {
        let (commands, questions): (Vec<_>, _) =
            self.control.questions().partition(Question::is_command);
        self.commands.extend(commands);
        questions
    }

    /// Takes the commands that the round is to carry out.
    pub fn commands(&mut self) -> Vec<(Request, Sender<Reply>)> {
        let commands = std::mem::take(&mut self.commands).into_iter();
        commands.map(|command| (command.request, command.answer)).collect()
    }
}
