//! ethtool's `esp-hw-offload` of interfaces behind which culvert has a device.
//!
//! Before strongSwan asks for an SA's offload it asks the interface, by `ioctl`: `ETHTOOL_GSSET_INFO` and
//! `ETHTOOL_GSTRINGS` tell the number of the feature with that name, `ETHTOOL_GFEATURES` tells whether it is on
//! (linux/ethtool.h). The kernel knows nothing of culvert's devices. So the feature is switched on in its answer
//! about the interfaces that the daemon names, one a line in the file `offload` beside its socket. In all else the answer
//! stays the kernel's.

use crate::config::Config;
use crate::sys::{self, Errno};

/// The command that asks which features an interface has.
pub(crate) const GFEATURES: u32 = 0x3a;

/// Bytes of an interface's name with its end (`IFNAMSIZ`).
pub(crate) const NAME_LEN: usize = 16;

/// 32 features, as the kernel tells them: available, requested, active, never changed.
pub(crate) type Block = [u32; 4];

/// Switches the feature on in an answer about an interface, if a device is behind it.
pub(crate) fn answer(config: &Config, fd: i32, name: &[u8; NAME_LEN], features: &mut [Block]) {
    if has_device(config, name)
        && let Ok(Some(feature)) = feature(fd, name)
    {
        switch_on(features, feature);
    }
}

fn switch_on(features: &mut [Block], feature: usize) {
    if let Some([available, requested, active, _]) = features.get_mut(feature / 32) {
        for word in [available, requested, active] {
            *word |= 1 << (feature % 32);
        }
    }
}

/// True if the daemon names the interface.
fn has_device(config: &Config, name: &[u8; NAME_LEN]) -> bool {
    let Some(end) = config.path.iter().rposition(|byte| *byte == b'/') else { return false };
    let mut path = config.path[..=end].to_vec();
    path.extend(FILE);
    let Ok(path) = String::from_utf8(path) else { return false };
    std::fs::read(path).is_ok_and(|names| is_named(&names, name))
}

fn is_named(names: &[u8], name: &[u8; NAME_LEN]) -> bool {
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(NAME_LEN);
    len > 0 && names.split(|byte| *byte == b'\n').any(|line| line == &name[..len])
}

/// The number of the feature, which the kernel tells by an interface only.
fn feature(fd: i32, name: &[u8; NAME_LEN]) -> Result<Option<usize>, Errno> {
    // `struct ethtool_sset_info`: command, reserved, mask, and a count for each bit of it.
    let [mask_a, mask_b] = halves(1 << SS_FEATURES);
    let mut info = [GSSET_INFO, 0, mask_a, mask_b, 0];
    sys::ethtool(fd, name, &mut info)?;
    let count = info[4].min(MOST_FEATURES) as usize;
    // `struct ethtool_gstrings`: command, set, count, and the names.
    let mut strings = vec![0; 3 + count * STRING_LEN / 4];
    strings[..2].copy_from_slice(&[GSTRINGS, SS_FEATURES]);
    sys::ethtool(fd, name, &mut strings)?;
    let bytes: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(place(&bytes))
}

/// The place of the feature's name among names of a fixed length.
fn place(names: &[u8]) -> Option<usize> {
    let is_it = |name: &[u8]| name.strip_prefix(ESP_HW_OFFLOAD).is_some_and(|rest| rest[0] == 0);
    names.chunks_exact(STRING_LEN).position(is_it)
}

fn halves(value: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

const FILE: &[u8] = b"offload";
const ESP_HW_OFFLOAD: &[u8] = b"esp-hw-offload";

const GSTRINGS: u32 = 0x1b;
const GSSET_INFO: u32 = 0x37;
/// The set of names that are features'.
const SS_FEATURES: u32 = 4;
/// Bytes of a name with its end.
const STRING_LEN: usize = 32;
/// More features than a kernel has (64).
const MOST_FEATURES: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> [u8; NAME_LEN] {
        let mut name = [0; NAME_LEN];
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    #[test]
    fn interfaces_are_named_as_a_whole() {
        let names = b"wan\nan-interface-16\n";
        for (interface, expected) in
            [("wan", true), ("wa", false), ("wan0", false), ("", false), ("an-interface-16", true)]
        {
            assert_eq!(is_named(names, &name(interface)), expected, "{interface}");
        }
        assert!(!is_named(b"", &name("wan")) && !is_named(b"\n", &name("")));
    }

    #[test]
    fn the_feature_is_found_by_its_whole_name_and_switched_on_alone() {
        let mut names = vec![0; 40 * STRING_LEN];
        names[33 * STRING_LEN..][..22].copy_from_slice(b"esp-hw-offload-and-mor");
        names[35 * STRING_LEN..][..14].copy_from_slice(ESP_HW_OFFLOAD);
        assert_eq!(place(&names), Some(35));
        assert_eq!(place(&names[..35 * STRING_LEN]), None);
        let mut features = [[1, 2, 4, 8]; 2];
        switch_on(&mut features, 35);
        assert_eq!(features, [[1, 2, 4, 8], [9, 10, 12, 8]]);
        switch_on(&mut features, 99);
        assert_eq!(features[1], [9, 10, 12, 8]);
    }

    #[test]
    fn the_mask_is_one_word_for_the_kernel() {
        let [a, b] = halves(16);
        assert_eq!(a | b, 16);
    }
}
