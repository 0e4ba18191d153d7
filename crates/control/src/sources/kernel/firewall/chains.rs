//! Chains that count, one of each family.

/// The first chain that counts, for each family, as an operator knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chains {
    /// Chains of IPv4 rules.
    pub v4: Option<String>,
    /// Chains of IPv6 rules.
    pub v6: Option<String>,
}

impl Chains {
    /// Notes a chain, unless there is one already.
    pub fn note(&mut self, is_v4: bool, is_v6: bool, chain: impl Fn() -> String) {
        for (_, slot) in [(is_v4, &mut self.v4), (is_v6, &mut self.v6)].into_iter().filter(|f| f.0)
        {
            slot.get_or_insert_with(&chain);
        }
    }

    /// True if no further chain adds anything.
    pub fn is_full(&self) -> bool {
        self.v4.is_some() && self.v6.is_some()
    }
}
