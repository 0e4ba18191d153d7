//! The instruction sets that there is an implementation for, and which of them the processor has.

/// One of them. Its value says that the processor has the instructions: [`Isa::available`] makes them, and nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Isa(Kind);

/// Set of instructions that a processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// None beyond those that every processor has.
    Portable,
    /// AVX2, AES, PCLMULQDQ.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX2's set, VAES and VPCLMULQDQ.
    #[cfg(target_arch = "x86_64")]
    Vaes,
    /// That set without VAES; AVX-512 with its bytes and words, and GFNI.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The set of every processor.
    pub(crate) const PORTABLE: Isa = Isa(Kind::Portable);

    /// All that this processor has, the slowest first.
    pub(crate) fn available() -> Vec<Isa> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "nothing is added"))]
        let mut all = vec![Isa::PORTABLE];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("aes") && has!("pclmulqdq");
            let wide = avx2 && has!("vpclmulqdq");
            if avx2 {
                all.push(Isa(Kind::Avx2));
            }
            if wide && has!("vaes") {
                all.push(Isa(Kind::Vaes));
            }
            if wide && has!("avx512f") && has!("avx512bw") && has!("gfni") {
                all.push(Isa(Kind::Avx512));
            }
        }
        all
    }

    /// Which it is.
    #[inline]
    pub(crate) fn kind(self) -> Kind {
        self.0
    }

    /// The name, for people.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2 with AES",
            #[cfg(target_arch = "x86_64")]
            Kind::Vaes => "AVX2 with VAES",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512 with GFNI",
        }
    }
}
