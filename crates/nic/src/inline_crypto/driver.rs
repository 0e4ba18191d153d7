//! The driver: the NIC as an [`offload::Device`] for crypto offload.

use core::fmt;

use crypto::{AesKey, IcvLen, Suite};
use offload::{
    Buffer, Capabilities, Device, DeviceCounters, Event, Failure, HandleError, Invalid, Live,
    NewSa, PutError, Queue, SaHandle, TableUse,
};

use crate::inline_crypto::engine::{EngineError, Key};
use crate::inline_crypto::model::{Counters, Nic};
use crate::inline_crypto::queue::NicQueue;
use crate::inline_crypto::registers::{ADDRESSES, SAS};
use crate::inline_crypto::shadow::{NewEntry, Shadow};
use crate::inline_crypto::shared::{Inner, SharedNic};

/// The NIC as a device.
pub struct NicDevice {
    name: String,
    nic: SharedNic,
    capabilities: Capabilities,
    last_handle: u32,
}

impl NicDevice {
    /// A NIC with empty tables.
    ///
    /// # Errors
    /// OpenSSL has no AES-128-GCM.
    pub fn new(name: &str) -> Result<NicDevice, EngineError> {
        let inner = Inner { nic: Nic::new()?, shadow: Shadow::new() };
        Ok(NicDevice {
            name: name.to_owned(),
            nic: SharedNic::new(inner),
            capabilities: capabilities(),
            last_handle: 0,
        })
    }

    /// The hardware model, for a test.
    pub fn nic(&self) -> SharedNic {
        self.nic.clone()
    }
}

/// Capabilities of the hardware. Not AH: its ICV covers headers that crypto offload does not hand
/// over.
fn capabilities() -> Capabilities {
    Capabilities {
        most_sas: SAS,
        most_addresses: ADDRESSES,
        most_packet_len: MOST_PACKET_LEN,
        ..Capabilities::crypto(vec![GCM, GMAC])
    }
}

const GCM: Suite = Suite::AesGcm { key: AesKey::Aes128, icv: IcvLen::Icv16 };
const GMAC: Suite = Suite::AesGmac { key: AesKey::Aes128 };

/// A jumbo frame of 15.5 KiB without link header and checksum.
const MOST_PACKET_LEN: usize = 15_872 - 18;

impl<B: Buffer> Device<B> for NicDevice {
    fn name(&self) -> &str {
        &self.name
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn put_sa(&mut self, sa: NewSa<'_>) -> Result<SaHandle, PutError> {
        let params = &sa.config.params;
        self.capabilities.check_sa(sa.config).map_err(PutError::Unsupported)?;
        let keys = sa.keys;
        let parts =
            keys.cipher.as_slice().try_into().ok().zip(keys.salt.as_slice().try_into().ok());
        let Some((key, salt)) = parts.filter(|_| keys.fit(params.suite)) else {
            return Err(Invalid::Keys.into());
        };
        let handle = SaHandle(self.last_handle.wrapping_add(1));
        let mut inner = self.nic.lock();
        let Inner { nic, shadow } = &mut *inner;
        let entry = NewEntry {
            handle,
            direction: sa.direction,
            dst: params.dst,
            spi: params.spi,
            key: Key::new(key, salt),
            is_encrypted: params.suite == GCM,
            start: sa.start,
        };
        shadow.add(nic, entry)?;
        self.last_handle = handle.0;
        Ok(handle)
    }

    fn remove_sa(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        let mut inner = self.nic.lock();
        let Inner { nic, shadow } = &mut *inner;
        shadow.remove(nic, sa).ok_or(HandleError::Unknown)
    }

    fn live(&mut self, sa: SaHandle) -> Result<Live, HandleError> {
        self.nic.lock().shadow.start(sa).cloned().ok_or(HandleError::Unknown)
    }

    fn queue(&mut self) -> Result<Box<dyn Queue<B>>, PutError> {
        Ok(Box::new(NicQueue::new(self.nic.clone())))
    }

    fn event(&mut self) -> Option<Event> {
        None
    }

    fn check(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn tables(&self) -> Vec<TableUse> {
        let [transmit, receive, addresses] = self.nic.lock().shadow.used();
        vec![
            TableUse { name: "transmit SAs", used: transmit, most: SAS },
            TableUse { name: "receive SAs", used: receive, most: SAS },
            TableUse { name: "receive addresses", used: addresses, most: ADDRESSES },
        ]
    }

    fn counters(&self) -> DeviceCounters {
        let Counters {
            sealed,
            not_sealed,
            opened,
            unknown,
            wrong_protocol,
            wrong_length,
            wrong_icv,
            resets,
        } = self.nic.lock().nic.counters();
        let refused = not_sealed + unknown + wrong_protocol + wrong_length;
        DeviceCounters { sealed, opened, wrong_icv, refused, resets }
    }

    fn reset(&mut self) -> Result<(), Failure> {
        let mut inner = self.nic.lock();
        let Inner { nic, shadow } = &mut *inner;
        nic.reset();
        shadow.reload(nic);
        Ok(())
    }
}

impl fmt::Debug for NicDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NicDevice({})", self.name)
    }
}
