//! The folder that holds the content of a volume that is not a single device. For an array of devices it is an
//! [`ArrayFolder`]; an array of arrays has one folder per member (`member-0` is the first) and `array.json`. A read
//! cache adds the file `read-cache` next to the files of the cached devices. The file holds only copies of cached data:
//! a server starts with an empty cache.

use super::array_folder::{ArrayFolder, DescribedArray, member_file};
use super::resync::{Branch, Member};
use crate::store::{self, Store};
use iodyno_emulate::spec::{Array, Part};
use iodyno_emulate::{PartId, System};
use iodyno_raid::MemberSet;
use std::path::Path;

/// Open folder of a volume or of one of its components, with its stores and the folders of its arrays.
#[derive(Debug, Default)]
pub struct VolumeFolder {
    /// Stores of devices and of adapters' caches, each with its component.
    pub stores: Vec<(PartId, Store)>,
    /// Folders of arrays, inner arrays first. A single device behind adapters has a folder, too.
    pub folders: Vec<(PartId, ArrayFolder)>,
}

/// Settings for opening files of a volume: the name for messages, and the stores' options.
#[derive(Clone, Copy)]
struct Files<'a> {
    name: &'a str,
    options: store::Options,
}

impl VolumeFolder {
    /// Opens or creates the folder of a volume, with all files in it.
    ///
    /// # Errors
    /// The folder contains another volume or unsupported content, or a file can't be opened. Files created by
    /// this call are removed.
    pub fn open(
        path: &Path,
        system: &System,
        volume: u32,
        options: store::Options,
    ) -> Result<Self, String> {
        let of = &system.volumes[volume as usize];
        let mut opened = Self::default();
        let files = Files { name: &of.name, options };
        match opened.open_part(path, system, of.root, files) {
            Ok(()) => Ok(opened),
            Err(why) => {
                opened.abandon();
                Err(why)
            }
        }
    }

    /// Removes all files and folders that opening created. Called when a server could not start.
    pub fn abandon(&self) {
        self.stores.iter().for_each(|(_, store)| store.abandon());
        self.folders.iter().for_each(|(_, folder)| folder.remove_made());
    }

    fn open_part(
        &mut self,
        path: &Path,
        system: &System,
        part: PartId,
        of: Files<'_>,
    ) -> Result<(), String> {
        let is_device = |part: PartId| matches!(system.parts[part.index()], Part::Device(_));
        match &system.parts[part.index()] {
            Part::AdapterPath(adapter_path) => {
                let cached = system.has_cache().then_some((part, adapter_path.capacity_bytes));
                self.open_files(path, system, adapter_path.child, of, cached)
            }
            Part::Array(array) if !is_device(array.members[0]) => {
                self.open_branches(path, system, part, array, of)
            }
            Part::ReadCache(cache) => {
                self.open_part(path, system, cache.backing, of)?;
                let bytes = system.part_capacity_bytes(cache.fast);
                let store = Store::in_file(&path.join("read-cache"), bytes, of.options);
                self.stores.push((cache.fast, store.map_err(|e| e.to_string())?));
                Ok(())
            }
            _ => self.open_files(path, system, part, of, None),
        }
    }

    /// Opens the folder of a device or of an array of devices, including the file of the adapters' cache if they
    /// have one.
    fn open_files(
        &mut self,
        path: &Path,
        system: &System,
        part: PartId,
        Files { name, options }: Files<'_>,
        cached: Option<(PartId, u64)>,
    ) -> Result<(), String> {
        let cached_bytes = cached.map(|cached| cached.1);
        let capacity_bytes = |part| system.part_capacity_bytes(part);
        let (described, members) = match &system.parts[part.index()] {
            Part::Array(array) => {
                let member_bytes =
                    array.members.iter().map(|&member| capacity_bytes(member)).max().unwrap_or(0);
                let layout = array.layout;
                let described = DescribedArray { name, layout, member_bytes, cached_bytes };
                (Some(described), array.members.clone())
            }
            _ => (DescribedArray::of_device(name, capacity_bytes(part), cached_bytes), vec![part]),
        };
        let described = described
            .ok_or("a folder can store only a device of 1 to 2^56 sectors of 512 bytes")?;
        let (folder, stores) = ArrayFolder::open(path, described, options)?;
        let parts = members.into_iter().chain(cached.map(|cached| cached.0));
        self.stores.extend(parts.zip(stores));
        self.folders.push((part, folder));
        Ok(())
    }

    /// Opens the folder of an array such as RAID 50, whose members are arrays, or caches or adapters above other parts.
    fn open_branches(
        &mut self,
        path: &Path,
        system: &System,
        part: PartId,
        array: &Array,
        Files { name, options }: Files<'_>,
    ) -> Result<(), String> {
        let is_there = |member: usize| member_file(path, member).join("array.json").exists();
        let folder = ArrayFolder::begin(path, name, &array.layout, is_there)?;
        let mut opened = Self::default();
        let mut members = array.members.iter().enumerate();
        let mut done = members.try_for_each(|(number, &member)| {
            let of = format!("member {number} of {name}");
            let files = Files { name: &of, options };
            opened.open_part(&member_file(path, number), system, member, files)
        });
        opened.folders.push((part, folder));
        if done.is_ok() {
            let (_, mut folder) = opened.folders.pop().expect("it was put there");
            let members: Vec<_> = array.members.iter().map(|&m| opened.member(system, m)).collect();
            done = folder.finish(&array.layout, &members);
            drop(members);
            opened.folders.push((part, folder));
        }
        if done.is_err() {
            opened.abandon();
            return done;
        }
        self.stores.append(&mut opened.stores);
        self.folders.append(&mut opened.folders);
        Ok(())
    }

    /// Access to the content of a device or array whose files are all open.
    fn member<'a>(&'a self, system: &System, part: PartId) -> Box<dyn Member + 'a> {
        match &system.parts[part.index()] {
            Part::Array(array) => {
                let folder = self.folders.iter().find(|folder| folder.0 == part);
                let missing = folder.map_or(MemberSet::NONE, |(_, folder)| folder.missing());
                let members = array.members.iter().map(|&member| self.member(system, member));
                Box::new(Branch { layout: array.layout, missing, members: members.collect() })
            }
            Part::AdapterPath(path) => self.member(system, path.child),
            Part::ReadCache(cache) => self.member(system, cache.backing),
            Part::Device(_) => {
                let store = self.stores.iter().find(|store| store.0 == part);
                Box::new(&store.expect("its file is open").1)
            }
        }
    }
}
