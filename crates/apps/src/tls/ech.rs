//! Names that clients show outside of an encrypted ClientHello, from the keys that DNS publishes (RFC 9849 §4).
//!
//! ```text
//!   ECHConfigList <2..>: each  version 2 | length 2 | contents
//!   contents of 0xfe0d: id 1 | KEM 2 | public key <2..> | suites <2..> | maximum length 1 | public name <1..> | extensions
//! ```

use crate::name::Name;
use crate::reader::Reader;

const VERSION: u16 = 0xfe0d;

/// The public names of a list of configurations, as far as it can be read.
pub(crate) fn public_names(list: &[u8]) -> Vec<Name> {
    let mut names = Vec::new();
    let mut configs = Reader::new(Reader::new(list).vec16().unwrap_or_default());
    while let Some((version, contents)) = configs.u16().and_then(|v| Some((v, configs.vec16()?))) {
        if version == VERSION {
            names.extend(public_name(contents));
        }
    }
    names
}

fn public_name(contents: &[u8]) -> Option<Name> {
    let mut reader = Reader::new(contents);
    reader.take(3)?;
    reader.vec16()?;
    reader.vec16()?;
    reader.u8()?;
    Name::new(reader.vec8()?)
}
