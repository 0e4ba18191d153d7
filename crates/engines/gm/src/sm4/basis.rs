//! The basis that the vector versions compute in, and a round in it.

use crate::fields::{A, AES, C, Map, Multiply};

/// The basis in which the vector versions compute: each byte of a word is mapped into AES's field when a block comes, as the S-box
/// would, and back when it goes. So within the rounds nothing stands before the inversion.
pub(super) const BASIS: Map = INTO_AES.after(A);

/// The S-box's addend before the inversion. Round keys have it in them.
pub(super) const BASIS_CONSTANT: u8 = INTO_AES.apply(C);

const INTO_AES: Map = Map::from_sm4(Multiply::Modulo(AES).root(), Multiply::Modulo(AES));

/// The part of a round behind the inversion: [`A`], [`C`] and the linear transformation L, in
/// [`BASIS`].
///
/// L adds to a word the same turned left by 2, 10, 18 and 24 bits. In bytes: byte `i` of the sum is N(i) + R(i+1) + R(i+2) +
/// (N+R)(i+3), where R turns a byte left by two bits and N adds to a byte the same shifted left by two. So two maps of the
/// inverse, R' and N', are all that the words need, beside turning them by whole bytes.
pub(super) struct Behind {
    pub(super) map: Map,
    pub(super) constant: u8,
}

impl Behind {
    /// The map R', in the comment's terms.
    pub(super) const TURNED: Behind = Behind::of(Map([4, 8, 16, 32, 64, 128, 1, 2]));
    /// The map N', in the comment's terms.
    pub(super) const NEAR: Behind =
        Behind::of(Map([1 ^ 4, 2 ^ 8, 4 ^ 16, 8 ^ 32, 16 ^ 64, 32 ^ 128, 64, 128]));

    const fn of(part: Map) -> Behind {
        let out = BASIS.after(part);
        Behind { map: out.after(A.after(INTO_AES.inverse())), constant: out.apply(C) }
    }
}
