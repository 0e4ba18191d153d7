//! A peer: its channel, and how far it has come.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use crate::channel::{Channel, ChannelError};
use crate::client::{ClientConfig, ClientError, ClientSession};
use crate::fault::{Broken, Faults};
use crate::message::{Message, Name, Text};
use crate::queue::Queue;
use crate::server::{Refusal, ServerConfig, ServerSession};

/// Why a link is over.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The control channel failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The peer says so.
    #[error("the peer disconnected: {0}")]
    Disconnected(Text<96>),
    /// The client asks for what cannot be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server says what cannot be.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The peer did with a ring what it must not do; the faults have it.
    #[error("the peer broke the rules of the rings")]
    Broken,
}

enum Session {
    Server(ServerSession),
    Client(ClientSession),
}

/// A peer, from the first message to the last.
///
/// A link that is dropped closes the channel, which the peer notices. What it has handed out works on in memory
/// that nobody else has any more, and does no harm.
pub struct Link {
    channel: Channel,
    session: Session,
    broken: Broken,
}

/// Messages that one call takes at most.
const MESSAGES: usize = 64;

impl Link {
    /// A client that has connected, as its server. Greets it.
    ///
    /// # Errors
    /// It is gone already.
    pub fn serve(
        channel: Channel,
        config: &ServerConfig,
        faults: &Arc<Faults>,
    ) -> Result<Self, LinkError> {
        let broken = Broken::default();
        let session = ServerSession::new(config, faults, &broken);
        channel.send(&session.hello(), None)?;
        Ok(Self { channel, session: Session::Server(session), broken })
    }

    /// A server that we have connected to, as its client.
    pub fn join(channel: Channel, config: &ClientConfig, faults: &Arc<Faults>) -> Self {
        let broken = Broken::default();
        let session = Session::Client(ClientSession::new(config, faults, &broken));
        Self { channel, session, broken }
    }

    /// The peer's program, as it calls itself; empty before it has said so.
    pub fn peer(&self) -> Name {
        match &self.session {
            Session::Server(session) => session.peer(),
            Session::Client(session) => session.peer(),
        }
    }

    /// Takes what has come by the channel; returns the queues, once.
    ///
    /// # Errors
    /// The link is over. The peer has been told why, if it is there.
    pub fn advance(&mut self) -> Result<Option<Vec<Queue>>, LinkError> {
        if self.broken.is_set() {
            return Err(self.end(LinkError::Broken));
        }
        for _ in 0..MESSAGES {
            let Some((message, fd)) = self.channel.receive().map_err(LinkError::from)? else {
                break;
            };
            if let Message::Disconnect { text, .. } = message {
                return Err(LinkError::Disconnected(text));
            }
            let queues = match &mut self.session {
                Session::Server(session) => match session.take(message, fd) {
                    Ok((answer, queues)) => {
                        self.channel.send(&answer, None)?;
                        queues
                    }
                    Err(refusal) => return Err(self.end(refusal.into())),
                },
                Session::Client(session) => match session.take(message) {
                    Ok((answer, queues)) => {
                        if let Some((message, fd)) = answer {
                            self.channel.send(&message, fd.as_ref().map(AsFd::as_fd))?;
                        }
                        queues
                    }
                    Err(error) => return Err(self.end(error.into())),
                },
            };
            if queues.is_some() {
                return Ok(queues);
            }
        }
        Ok(None)
    }

    /// Tells the peer why it is over.
    fn end(&self, error: LinkError) -> LinkError {
        self.disconnect(&error.to_string());
        error
    }

    /// Tells the peer that it is over. What it does with that is its own affair.
    pub fn disconnect(&self, why: &str) {
        disconnect(&self.channel, why);
    }
}

/// Turns a peer away that has just connected.
pub fn disconnect(channel: &Channel, why: &str) {
    let _ = channel.send(&Message::Disconnect { code: 0, text: Text::new(why) }, None);
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}
