//! Numbered places that a reader has for itself.

/// Places in pieces: adding one moves nothing.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    pieces: Vec<Piece<T>>,
}

pub(crate) type Piece<T> = Box<[T; PIECE]>;

impl<T: Default> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { pieces: Vec::with_capacity(PIECES_AHEAD) }
    }

    /// A piece of empty places.
    pub(crate) fn piece() -> Piece<T> {
        let places: Box<[T]> = (0..PIECE).map(|_| T::default()).collect();
        match places.try_into() {
            Ok(piece) => piece,
            Err(_) => unreachable!("as many places as a piece has"),
        }
    }

    pub(crate) fn push(&mut self, piece: Piece<T>) {
        self.pieces.push(piece);
    }

    /// How many places there are.
    pub(crate) fn len(&self) -> usize {
        self.pieces.len() * PIECE
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.pieces.get(slot as usize / PIECE).and_then(|piece| piece.get(slot as usize % PIECE))
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        let piece = self.pieces.get_mut(slot as usize / PIECE);
        piece.and_then(|piece| piece.get_mut(slot as usize % PIECE))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flat_map(|piece| piece.iter())
    }
}

impl<T: Default + Clone> Clone for Slots<T> {
    fn clone(&self) -> Slots<T> {
        let mut copy = Slots::new();
        copy.pieces.extend(self.pieces.iter().cloned());
        copy
    }
}

/// Slots are made in pieces of so many, so that nothing large is ever copied.
const PIECE: usize = 512;
/// Room for a million slots before the list of pieces has to grow itself.
const PIECES_AHEAD: usize = 2048;
