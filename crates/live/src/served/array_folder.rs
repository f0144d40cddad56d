//! The folder with the bytes of an array: a file for each member (`member-0` is the first), and `array.json`, which
//! states the missing members and whether data is lost.
//!
//! A missing member's content becomes stale. The member is entered in `array.json` as missing before it misses a write,
//! and removed from the list when its rebuild has ended. A server that opens the folder starts without the listed
//! members. A member whose file was removed is missing too.
//!
//! For an array behind adapters with a write cache, the file `cache`, of the volume's size, holds the cached data.
//! Like a protected cache after a power failure, the file survives the server, and [`ArrayFolder::open`] writes its
//! data to the members.
//!
//! After an unclean shutdown, rows may be inconsistent. [`ArrayFolder::open`] makes parity and copies agree with the
//! data. If the array has parity and a member is missing, opening fails, because the member's data would be computed
//! from inconsistent parity (the write hole).

use super::resync::{Member, Resync};
use crate::store::{self, Store, UNIT_BYTES};
use iodyno_catalog::MAX_FILE_BYTES;
use iodyno_catalog::input::read_text;
use iodyno_emulate::ArrayHealth;
use iodyno_emulate::spec::SECTOR_BYTES;
use iodyno_raid::layout::Role;
use iodyno_raid::{Layout, Level, MemberSet, Place, Simd};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

const UNIT: usize = UNIT_BYTES as usize;
const UNIT_SECTORS: u64 = UNIT_BYTES / SECTOR_BYTES;

/// Properties of an array whose content is stored in a folder.
#[derive(Clone, Copy, Debug)]
pub struct DescribedArray<'a> {
    /// Name of the array, such as `raid5(exflash-400g*4)`.
    pub name: &'a str,
    /// RAID layout: level, members, and strip size.
    pub layout: Layout,
    /// Capacity of each member, bytes.
    pub member_bytes: u64,
    /// Capacity of the volume, bytes, if adapters with a cache present it; otherwise None.
    pub cached_bytes: Option<u64>,
}

/// Creates `folder` if it does not exist. Returns the path of a subfolder for each volume, without creating the
/// subfolders.
///
/// # Errors
/// The folder can't be created.
pub fn volume_folders(folder: &Path, volumes: usize) -> Result<Vec<PathBuf>, String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok((0..volumes).map(|volume| folder.join(format!("volume-{volume}"))).collect())
}

impl<'a> DescribedArray<'a> {
    /// Describes a single device behind adapters, which is stored as an array of one member. None if the device
    /// has less than one sector, or more than an array's member can have.
    pub fn of_device(name: &'a str, member_bytes: u64, cached_bytes: Option<u64>) -> Option<Self> {
        let layout = Layout::new(Level::Jbod, &[member_bytes / SECTOR_BYTES], 0).ok()?;
        Some(Self { name, layout, member_bytes, cached_bytes })
    }
}

/// The open folder of an array, and the array's state as stored in `array.json`.
#[derive(Debug)]
pub struct ArrayFolder {
    path: PathBuf,
    name: String,
    strip_bytes: u64,
    health: ArrayHealth,
    /// Whether the folder did not yet contain an array when it was opened.
    is_new: bool,
    /// Whether opening created the folder itself.
    is_made: bool,
    /// Number of members' units rewritten when the folder was opened, because parity or copies were inconsistent.
    resynced_units: u64,
    /// Number of units that the adapters' cache file contained at opening.
    cached_units: u64,
}

impl ArrayFolder {
    /// Opens or creates an array's folder and the files in it. Returns the members' stores, followed by the store
    /// of the adapters' cache, if they have one.
    ///
    /// # Errors
    /// The folder contains another array or unsupported content, or a file can't be opened. Files created by this
    /// call are removed.
    pub fn open(
        path: &Path,
        array: DescribedArray<'_>,
        options: store::Options,
    ) -> Result<(Self, Vec<Store>), String> {
        let members = array.layout.members();
        let is_there = |m: usize| fs::metadata(member_file(path, m)).is_ok_and(|f| f.len() > 0);
        let mut folder = Self::begin(path, array.name, &array.layout, is_there)?;
        let mut stores: Vec<Store> = Vec::new();
        let opened = (0..members).try_for_each(|member| {
            let store = Store::in_file(&member_file(path, member), array.member_bytes, options);
            stores.push(store.map_err(|e| e.to_string())?);
            Ok(())
        });
        let replayed = opened.and_then(|()| folder.open_cache(&array, options, &stores));
        let finished = replayed.and_then(|cache| {
            folder.finish(&array.layout, &files(&stores))?;
            stores.extend(cache);
            Ok(())
        });
        match finished {
            Ok(()) => Ok((folder, stores)),
            Err(why) => {
                stores.iter().for_each(Store::abandon);
                folder.remove_made();
                Err(why)
            }
        }
    }

    /// Opens or creates an array's folder, but not its members' files. `is_there` tells whether a member's file
    /// exists.
    pub(super) fn begin(
        path: &Path,
        name: &str,
        layout: &Layout,
        is_there: impl Fn(usize) -> bool,
    ) -> Result<Self, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let members = layout.members();
        let absent = (0..members).filter(|&m| !is_there(m)).fold(MemberSet::NONE, MemberSet::with);
        let mut folder = Self {
            path: path.to_owned(),
            name: name.to_owned(),
            strip_bytes: layout.strip_sectors() * SECTOR_BYTES,
            health: ArrayHealth { missing: MemberSet::NONE, lost: false },
            is_new: false,
            is_made: false,
            resynced_units: 0,
            cached_units: 0,
        };
        match read_text(&folder.file(), MAX_FILE_BYTES) {
            Ok(text) => {
                folder.health = folder.read(&text).map_err(|why| failed(&why))?;
                let missing = absent.iter().fold(folder.health.missing, MemberSet::with);
                if !missing.is_empty() && !is_redundant(layout) {
                    let level = layout.level();
                    return Err(failed(&format!(
                        "a member is missing, and {level} has no redundancy: restore its file, or use another folder"
                    )));
                }
                folder.follow(ArrayHealth { missing, ..folder.health })?;
            }
            Err(e) if e.is_missing() => {
                if absent.len() < members {
                    return Err(failed(
                        &"the folder has files of array members, but no array.json",
                    ));
                }
                folder.is_new = true;
                match std::fs::create_dir(path) {
                    Ok(()) => folder.is_made = true,
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                    Err(e) => return Err(failed(&e)),
                }
            }
            Err(e) => return Err(failed(&e)),
        }
        Ok(folder)
    }

    /// Completes opening, once all members are open: makes parity and copies consistent, and writes `array.json`
    /// if the folder is new.
    pub(super) fn finish(
        &mut self,
        layout: &Layout,
        members: &[Box<dyn Member + '_>],
    ) -> Result<(), String> {
        self.agree(layout, members)?;
        if self.is_new { self.write() } else { Ok(()) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Set of missing members, by their index in the array.
    pub fn missing(&self) -> MemberSet {
        self.health.missing
    }

    /// Number of 4 KiB units that opening rewrote on the members, because their parity or copies were inconsistent
    /// after an unclean shutdown.
    pub fn resynced_units(&self) -> u64 {
        self.resynced_units
    }

    /// Number of 4 KiB units that the adapters' cache contained after the last shutdown; opening wrote them to
    /// the members.
    pub fn cached_units(&self) -> u64 {
        self.cached_units
    }

    /// Opens the file of the adapters' cache, if it exists or the array needs one, and writes its data to the
    /// members.
    fn open_cache(
        &mut self,
        array: &DescribedArray<'_>,
        options: store::Options,
        members: &[Store],
    ) -> Result<Option<Store>, String> {
        let path = self.path.join("cache");
        let found = fs::metadata(&path).map_or(0, |file| file.len());
        let Some(bytes) = array.cached_bytes.or((found > 0).then_some(found)) else {
            return Ok(None);
        };
        // (It must distinguish units of zeroes from holes.)
        let options = store::Options { holes_for_zeroes: false, ..options };
        let store = Store::in_file(&path, bytes, options).map_err(|e| e.to_string())?;
        if let Err(why) = self.replay(&array.layout, &store, members) {
            store.abandon();
            return Err(format!("{}: {why}", path.display()));
        }
        if array.cached_bytes.is_some() {
            return Ok(Some(store));
        }
        store.end().map_err(|e| e.to_string())?;
        Ok(None)
    }

    /// Writes the data in the adapters' cache to the members, recomputes parity, and empties the cache.
    fn replay(&mut self, layout: &Layout, cache: &Store, members: &[Store]) -> Result<(), String> {
        let units = cache.held_units().map_err(|e| e.to_string())?;
        let missing = self.health.missing;
        if !units.is_empty() && layout.copies() == 1 && !missing.is_empty() {
            return Err(
                "the cache holds data for an array that lacks a member and whose server did not \
                 shut down cleanly: the array's parity can't be computed. Use another folder"
                    .to_owned(),
            );
        }
        for &unit in &units {
            let at = layout.locate(unit * UNIT_SECTORS);
            let (stripe, Role::Data(strip)) = (layout.stripe(at.stripe), at.role) else {
                unreachable!("hosts write data")
            };
            let mut page = [0; UNIT];
            cache.read(unit * UNIT_BYTES, &mut page).map_err(|e| e.to_string())?;
            for copy in 0..layout.copies() {
                let Place { member, sector } = stripe.data(usize::from(strip), copy);
                if missing.contains(member) {
                    continue;
                }
                let offset_bytes = (sector + at.offset) * SECTOR_BYTES;
                let written = members[member].write_now(offset_bytes, &page);
                written.map_err(|e| format!("member {member}: {e}"))?;
            }
        }
        self.cached_units = units.len() as u64;
        if units.is_empty() {
            return Ok(());
        }
        // The members first, so that data they lack is still in the cache.
        members.iter().try_for_each(Store::sync).map_err(|e| e.to_string())?;
        if is_redundant(layout) && layout.copies() == 1 {
            self.make_parity(layout, members)?;
        }
        for unit in units {
            cache.trim_now(unit * UNIT_BYTES, UNIT_BYTES).map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Recomputes the parity of all rows in which a member has data.
    fn make_parity(&mut self, layout: &Layout, members: &[Store]) -> Result<(), String> {
        let members = &files(members);
        let mut resync = Resync { layout, members, simd: Simd::best(), written_units: 0 };
        let made = resync.parity();
        self.resynced_units += resync.written_units;
        made
    }

    /// Removes `array.json` and the folder, if opening created them. The stores must have removed their files before.
    /// Called when a server could not start.
    pub fn remove_made(&self) {
        if self.is_new && !(0..64).any(|member| member_file(&self.path, member).exists()) {
            let _ = fs::remove_file(self.file());
            if self.is_made {
                let _ = fs::remove_dir(&self.path);
            }
        }
    }

    /// Writes the array's state to `array.json` if the state has changed.
    ///
    /// # Errors
    /// The file can't be written.
    #[inline]
    pub(super) fn follow(&mut self, health: ArrayHealth) -> Result<(), String> {
        if health == self.health {
            return Ok(());
        }
        self.health = health;
        self.write()
    }

    fn file(&self) -> PathBuf {
        self.path.join("array.json")
    }

    fn read(&self, text: &str) -> Result<ArrayHealth, String> {
        let wrong = || "array.json is not valid".to_owned();
        let found: Value = serde_json::from_str(text).map_err(|_| wrong())?;
        let name = found["array"].as_str().ok_or_else(wrong)?;
        if name != self.name || found["strip_bytes"].as_u64() != Some(self.strip_bytes) {
            return Err(format!("the folder holds {name}, not {}", self.name));
        }
        let numbers = found["missing"].as_array().ok_or_else(wrong)?.iter().map(Value::as_u64);
        let missing = numbers
            .map(|n| n.filter(|&n| n < 64).map(|n| n as usize))
            .try_fold(MemberSet::NONE, |set, n| n.map(|n| set.with(n)));
        let lost = found["lost"].as_bool().ok_or_else(wrong)?;
        if lost {
            return Err(
                "some data of this array was lost, but the folder does not record which data: use another folder"
                    .to_owned(),
            );
        }
        Ok(ArrayHealth { missing: missing.ok_or_else(wrong)?, lost })
    }

    #[cold]
    fn write(&self) -> Result<(), String> {
        let missing: Vec<usize> = self.health.missing.iter().collect();
        let text = json!({
            "array": self.name,
            "strip_bytes": self.strip_bytes,
            "missing": missing,
            "lost": self.health.lost,
        });
        let new = self.path.join("array.json.new");
        let write = || {
            // A killed server may have left this file. If it is a link, only the link is removed.
            match fs::remove_file(&new) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
            writeln!(file, "{text}")?;
            file.sync_all()?;
            fs::rename(&new, self.file())
        };
        write().map_err(|e| format!("{}: {e}", self.file().display()))
    }

    /// Makes parity and copies agree with the data, if the last server did not shut down cleanly.
    fn agree(&mut self, layout: &Layout, members: &[Box<dyn Member + '_>]) -> Result<(), String> {
        if !is_redundant(layout) || members.iter().all(|member| member.was_ended()) {
            return Ok(());
        }
        if layout.copies() == 1 && !self.health.missing.is_empty() {
            return Err(format!(
                "{}: the last server did not shut down cleanly, and a member was missing: the \
                 member's data can't be computed, because parity might not match the data (the write \
                 hole). Use another folder",
                self.path.display()
            ));
        }
        let mut resync = Resync { layout, members, simd: Simd::best(), written_units: 0 };
        let missing = self.health.missing;
        let present = (0..layout.members()).filter(|&member| !missing.contains(member));
        let done = if layout.copies() > 1 {
            present.clone().try_for_each(|member| resync.copies_of(member, missing))
        } else {
            resync.parity()
        };
        self.resynced_units += resync.written_units;
        done.map_err(|why| format!("{}: {why}", self.path.display()))
    }
}

fn is_redundant(layout: &Layout) -> bool {
    layout.copies() > 1 || layout.level().parities() > 0
}

/// Path of a member's file, or of its folder if the member is an array.
pub(super) fn member_file(path: &Path, member: usize) -> PathBuf {
    path.join(format!("member-{member}"))
}

/// Makes a [`Member`] of each store, in order. The array's members must all be devices.
fn files(stores: &[Store]) -> Vec<Box<dyn Member + '_>> {
    stores.iter().map(|store| Box::new(store) as Box<dyn Member>).collect()
}
