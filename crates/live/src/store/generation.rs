//! Generations of writes, recorded in the checksum file: they tell which units may still match their previous checksum.
//!
//! A generation comprises the writes between two flushes. It is closed once all its writes have completed; its units
//! must then match their current checksum. A killed server leaves its last generation open, and a unit written in it
//! may match the current or the previous checksum. The next server records such a generation as *in doubt*, and accepts
//! either checksum until the unit is rewritten.
//!
//! ```text
//! 0      serial number: u64 (the file has two of these records; the intact one with the higher number counts)
//! 8      number of the last closed generation: u64
//! 16     1 if the server shut down cleanly; number of ranges in doubt: u32 each
//! 24     first and last generation of each range in doubt: u64 each
//! 508    CRC-32C of the 508 bytes before: u32
//! ```

/// Offsets of the two header slots in the checksum file. The generations are written to them alternately.
pub(super) const SLOTS: [u64; 2] = [512, 1024];
const SLOT_BYTES: usize = 512;
const RANGES_MAX: usize = 29;
/// Increment of the generation number when a server opens a file after an unclean shutdown. It exceeds the
/// number of generations that may have been started since the last one known to be closed.
const LEAP: u64 = 1 << 32;

/// Generations of writes that are closed, and those that an unclean shutdown left in doubt, as stored in a checksum
/// file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generations {
    serial: u64,
    /// Number of the last generation (period between two flushes) whose writes have all completed, or are in doubt
    /// after an unclean shutdown. All earlier generations are closed or in doubt, too.
    pub closed: u64,
    ended: bool,
    /// First and last generation of each range that is in doubt after an unclean shutdown, in ascending order.
    in_doubt: Vec<(u64, u64)>,
}

impl Default for Generations {
    fn default() -> Self {
        Self { serial: 0, closed: 0, ended: true, in_doubt: Vec::new() }
    }
}

impl Generations {
    /// Generations of a checksum file converted from format version 1: all units are in doubt.
    pub(super) fn converted() -> Self {
        Self { serial: 0, closed: 1, ended: true, in_doubt: vec![(1, 1)] }
    }

    /// Whether a unit written in this generation may match either its current or its previous checksum.
    #[inline]
    pub(super) fn is_in_doubt(&self, generation: u64) -> bool {
        self.in_doubt.iter().any(|&(first, last)| (first..=last).contains(&generation))
    }

    /// Records that a server opens the file. If the previous server shut down uncleanly, its open generations are
    /// in doubt.
    pub(super) fn open(&mut self) {
        if !std::mem::replace(&mut self.ended, false) {
            let first = self.closed + 1;
            self.closed += LEAP;
            match self.in_doubt.last_mut() {
                Some((_, last)) if *last + 1 == first => *last = self.closed,
                _ => self.in_doubt.push((first, self.closed)),
            }
        }
        while self.in_doubt.len() > RANGES_MAX {
            // Merges the two ranges with the smallest gap; the generations between become doubtful, too.
            let gap = |i: &usize| self.in_doubt[i + 1].0 - self.in_doubt[*i].1;
            let i = (0..self.in_doubt.len() - 1).min_by_key(gap).unwrap_or(0);
            self.in_doubt[i].1 = self.in_doubt[i + 1].1;
            self.in_doubt.remove(i + 1);
        }
        self.serial += 1;
    }

    /// Marks all generations up to `generation` as closed. `ended`: the server shuts down cleanly.
    pub(super) fn close(&mut self, generation: u64, ended: bool) {
        self.closed = generation;
        self.ended = ended;
        self.serial += 1;
    }

    /// Whether the last server of the file shut down cleanly.
    pub(super) fn is_ended(&self) -> bool {
        self.ended
    }

    /// File offset of the header slot to write next. The two slots alternate, so that one is always intact.
    pub(super) fn place(&self) -> u64 {
        SLOTS[(self.serial % 2) as usize]
    }

    pub(super) fn slot(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = Vec::with_capacity(SLOT_BYTES);
        bytes.extend(self.serial.to_le_bytes());
        bytes.extend(self.closed.to_le_bytes());
        bytes.extend(u32::from(self.ended).to_le_bytes());
        bytes.extend((self.in_doubt.len() as u32).to_le_bytes());
        for (first, last) in &self.in_doubt {
            bytes.extend(first.to_le_bytes());
            bytes.extend(last.to_le_bytes());
        }
        let mut slot = [0; SLOT_BYTES];
        slot[..bytes.len()].copy_from_slice(&bytes);
        let crc = crc_fast::crc32_iscsi(&slot[..SLOT_BYTES - 4]);
        slot[SLOT_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        slot
    }

    /// Parses the header of a checksum file; `None` if neither of its two slots is valid.
    pub(super) fn read(header: &[u8]) -> Option<Self> {
        let slot = |at: u64| Self::from_slot(header.get(at as usize..at as usize + SLOT_BYTES)?);
        SLOTS.into_iter().filter_map(slot).max_by_key(|g| g.serial)
    }

    fn from_slot(slot: &[u8]) -> Option<Self> {
        let (body, crc) = slot.split_at(SLOT_BYTES - 4);
        if crc_fast::crc32_iscsi(body).to_le_bytes() != *crc {
            return None;
        }
        let (words, _) = body.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        let count = (word(2) >> 32) as usize;
        let range = |i: usize| (word(3 + 2 * i), word(4 + 2 * i));
        (count <= RANGES_MAX).then(|| Self {
            serial: word(0),
            closed: word(1),
            ended: word(2) as u32 == 1,
            in_doubt: (0..count).map(range).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_open_generations_stay_in_doubt() {
        let mut generations = Generations::default();
        let (mut open, mut closed) = (Vec::new(), Vec::new());
        for session in 0..20 {
            generations = Generations::from_slot(&generations.slot()).unwrap();
            generations.open();
            for _ in 0..session % 3 {
                let now = generations.closed + 1;
                generations.close(now, false);
                closed.push(now);
            }
            if session % 2 == 0 {
                open.push(generations.closed + 1);
            } else {
                let now = generations.closed + 1;
                generations.close(now, true);
                closed.push(now);
            }
        }
        generations.open();
        assert!(open.iter().all(|&g| generations.is_in_doubt(g)));
        assert!(!closed.iter().any(|&g| generations.is_in_doubt(g)), "{closed:?} {generations:?}");
        // Doubtful generations stay so, however often a server is killed.
        for _ in 0..100 {
            let now = generations.closed + 1;
            generations.close(now, false);
            open.push(now + 1);
            generations.open();
            generations = Generations::from_slot(&generations.slot()).unwrap();
        }
        assert!(open.iter().all(|&g| generations.is_in_doubt(g)));
        assert!(!generations.is_in_doubt(generations.closed + 1));
    }

    #[test]
    fn a_slot_that_is_torn_does_not_count() {
        let mut generations = Generations::default();
        let mut header = vec![0; 4096];
        for _ in 0..5 {
            generations.open();
            let at = generations.place() as usize;
            header[at..at + SLOT_BYTES].copy_from_slice(&generations.slot());
        }
        assert_eq!(Generations::read(&header).as_ref(), Some(&generations));
        let at = generations.place() as usize;
        header[at + 9] ^= 1;
        assert_eq!(Generations::read(&header).map(|g| g.serial), Some(generations.serial - 1));
        header[SLOTS[0] as usize] ^= 1;
        header[SLOTS[1] as usize] ^= 1;
        assert_eq!(Generations::read(&header), None);
    }
}
