//! The fields of 256 elements that S-boxes invert in, and the linear maps between them.
//!
//! SM4's S-box is `A·(A·x + c)⁻¹ + c`, inverted modulo [`SM4`]; AES's is `M·x⁻¹ + 0x63` modulo [`AES`]. All fields of that size are
//! the same but for the names of their elements, so a linear map leads from SM4's to AES's or to any other, and SM4's S-box becomes
//! an affine map, an inversion that is at hand, and an affine map. All is computed by the compiler.

/// SM4's polynomial: x⁸+x⁷+x⁶+x⁵+x⁴+x²+1.
pub(crate) const SM4: u16 = 0x1f5;

/// AES's polynomial: x⁸+x⁴+x³+x+1. GFNI has it too.
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) const AES: u16 = 0x11b;

/// `A`: the image of bit `i` is the number of bit 0 turned left by `i`.
pub(crate) const A: Map = turned(0xcb);

/// The constant `c` of SM4's S-box, added before and after the inversion.
pub(crate) const C: u8 = 0xd3;

/// The linear part of AES's S-box.
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) const M: Map = turned(0x1f);

/// The constant of AES's S-box.
#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) const M_CONSTANT: u8 = 0x63;

/// A linear map of bytes: the images of their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Map(pub(crate) [u8; 8]);

impl Map {
    /// The image of a byte, in time that does not depend on it.
    pub(crate) const fn apply(self, byte: u8) -> u8 {
        let (mut image, mut bit) = (0, 0);
        while bit < 8 {
            image ^= self.0[bit] & 0_u8.wrapping_sub(byte >> bit & 1);
            bit += 1;
        }
        image
    }

    /// First `other`, then this.
    pub(crate) const fn after(self, other: Map) -> Map {
        let (mut images, mut bit) = ([0; 8], 0);
        while bit < 8 {
            images[bit] = self.apply(other.0[bit]);
            bit += 1;
        }
        Map(images)
    }

    /// The map back; of a map that has one.
    pub(crate) const fn inverse(self) -> Map {
        let (mut images, mut byte) = ([0; 8], 0_u8);
        loop {
            let image = self.apply(byte);
            if image.is_power_of_two() {
                images[image.trailing_zeros() as usize] = byte;
            }
            if byte == 255 {
                return Map(images);
            }
            byte += 1;
        }
    }

    /// From SM4's field to one of another multiplication: the images of the powers of x are those of a root of SM4's polynomial.
    pub(crate) const fn from_sm4(root: u8, multiply: Multiply) -> Map {
        let mut images = [1; 8];
        let mut bit = 1;
        while bit < 8 {
            images[bit] = multiply.of(images[bit - 1], root);
            bit += 1;
        }
        Map(images)
    }
}

/// A multiplication of bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Multiply {
    /// Modulo a polynomial of degree eight.
    #[cfg(any(test, target_arch = "x86_64"))]
    Modulo(u16),
    /// In a tower of fields, as [`tower`] multiplies.
    Tower,
}

impl Multiply {
    /// The product of two elements of the field.
    pub(crate) const fn of(self, a: u8, b: u8) -> u8 {
        match self {
            #[cfg(any(test, target_arch = "x86_64"))]
            Multiply::Modulo(polynomial) => modulo(a, b, polynomial),
            Multiply::Tower => tower(a, b),
        }
    }

    /// A root of SM4's polynomial.
    pub(crate) const fn root(self) -> u8 {
        let mut root = 2;
        loop {
            let (mut power, mut sum, mut exponent) = (1, 0, 0);
            while exponent <= 8 {
                if SM4 >> exponent & 1 == 1 {
                    sum ^= power;
                }
                power = self.of(power, root);
                exponent += 1;
            }
            if sum == 0 {
                return root;
            }
            root += 1;
        }
    }
}

/// A byte's product modulo a polynomial.
#[cfg(any(test, target_arch = "x86_64"))]
const fn modulo(a: u8, b: u8, polynomial: u16) -> u8 {
    let (mut product, mut power, mut bit) = (0, a as u16, 0);
    while bit < 8 {
        if b >> bit & 1 == 1 {
            product ^= power;
        }
        power <<= 1;
        if power & 0x100 != 0 {
            power ^= polynomial;
        }
        bit += 1;
    }
    product as u8
}

/// A product in the field of 16 elements modulo x⁴+x+1.
pub(crate) const fn nibble(a: u8, b: u8) -> u8 {
    let (mut product, mut power, mut bit) = (0, a, 0);
    while bit < 4 {
        if b >> bit & 1 == 1 {
            product ^= power;
        }
        power <<= 1;
        if power & 0x10 != 0 {
            power ^= 0x13;
        }
        bit += 1;
    }
    product
}

/// A product of `high·y + low` modulo y²+y+8 over nibbles. (8 is x³, for which that has no root.)
const fn tower(a: u8, b: u8) -> u8 {
    let (a1, a0, b1, b0) = (a >> 4, a & 15, b >> 4, b & 15);
    let high = nibble(a1, b1);
    let cross = nibble(a1, b0) ^ nibble(a0, b1);
    (high ^ cross) << 4 | nibble(high, 8) ^ nibble(a0, b0)
}

/// The map whose matrix is that of one byte, turned by one bit from column to column.
const fn turned(first: u8) -> Map {
    let (mut images, mut bit) = ([0; 8], 0);
    while bit < 8 {
        images[bit] = first.rotate_left(bit as u32);
        bit += 1;
    }
    Map(images)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// SM4's S-box as its definition has it.
    pub(crate) fn sbox(byte: u8) -> u8 {
        A.apply(inverse(A.apply(byte) ^ C, Multiply::Modulo(SM4))) ^ C
    }

    fn inverse(byte: u8, multiply: Multiply) -> u8 {
        (0..=255).find(|other| multiply.of(byte, *other) == 1).unwrap_or(0)
    }

    #[test]
    fn the_standard_s_boxes_begin_so() {
        assert_eq!([0, 1, 2, 3, 255].map(sbox), [0xd6, 0x90, 0xe9, 0xfe, 0x48]);
        let aes = |byte| M.apply(inverse(byte, Multiply::Modulo(AES))) ^ M_CONSTANT;
        assert_eq!([0, 1, 2, 3, 255].map(aes), [0x63, 0x7c, 0x77, 0x7b, 0x16]);
    }

    #[test]
    fn a_root_leads_into_another_field() {
        for multiply in [Multiply::Modulo(AES), Multiply::Tower] {
            let map = Map::from_sm4(multiply.root(), multiply);
            for (a, b) in [(3, 7), (0x53, 0xca), (255, 254), (1, 200), (0, 9)] {
                let product = multiply.of(map.apply(a), map.apply(b));
                assert_eq!(map.apply(modulo(a, b, SM4)), product);
            }
            assert_eq!(map.inverse().after(map).apply(0xa7), 0xa7);
        }
    }
}
