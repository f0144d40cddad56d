//! The volumes of a server: their sizes, the disk images with their initial content, and the memory or files that
//! store their data.

use crate::error::ServeError;
use crate::numbered::Numbered;
use crate::request::{Console, ServeRequest};
use crate::system::enlarge;
use iodyno_emulate::spec::Part;
use iodyno_emulate::{PartId, System};
use iodyno_live::served::{ArrayFolder, VolumeFolder, stores_needed, volume_folders};
use iodyno_live::store::{self, Image, Store};
use iodyno_nbd::client::Uri;
use iodyno_targets::{
    Content, Direct, RefusalCode, Signature, SignatureKind, SysRoot, TargetName, check_writable,
    inspect, probe,
};
use iodyno_units::human::{self, counted};
use iodyno_units::text::clean;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Minimum memory for the data of a volume, bytes. The map of written 4 KiB blocks uses a part of it.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// The volumes of a server, before their stores are opened.
pub(crate) struct Volumes {
    /// Size of each volume, bytes.
    pub(crate) sizes_bytes: Vec<u64>,
    /// Disk images with the volumes' initial content, one per volume; empty if there are no images.
    images: Vec<Image>,
    console: Console,
    /// Descriptions of the images and array folders for the server's output, one line each.
    pub(crate) words: String,
}

impl Volumes {
    /// Opens the disk images, determines the volumes' sizes, and enlarges devices to these sizes.
    pub(crate) fn open(
        request: &ServeRequest,
        console: Console,
        system: &mut System,
    ) -> Result<Self, ServeError> {
        one_for_each(system, "--image", request.image.len())?;
        let (mut images, mut sizes_bytes, mut words) = (Vec::new(), Vec::new(), String::new());
        for text in &request.image {
            let size_bytes = if request.write_image {
                let size_bytes = writable_bytes(text)?;
                let _ = writeln!(words, "image   {}, which clients write to", clean(text));
                size_bytes
            } else {
                let image = image(text, console)?;
                let size_bytes = image.size_bytes();
                images.push(image);
                let _ = writeln!(
                    words,
                    "image   {}, read only: clients' writes stay in memory",
                    clean(text)
                );
                request.size.unwrap_or(size_bytes).max(size_bytes)
            };
            if let Some(size) = request.size.filter(|&size| size < size_bytes) {
                return Err(ServeError::input(format!(
                    "--size {} would cut off a part of {text}, which has {}: leave --size out",
                    human::exact_size(size),
                    human::exact_size(size_bytes)
                )));
            }
            sizes_bytes.push(size_bytes);
        }
        if sizes_bytes.is_empty() {
            let own = |v| request.size.unwrap_or_else(|| system.capacity_bytes(v));
            sizes_bytes = numbers(system).map(own).collect();
        }
        enlarge(system, &sizes_bytes).map_err(ServeError::input)?;
        Ok(Self { sizes_bytes, images, console, words })
    }

    /// Opens the stores of all devices, and the folders that contain arrays.
    pub(crate) fn stores(
        &mut self,
        request: &ServeRequest,
        system: &System,
    ) -> Result<Opened, ServeError> {
        let backing = backing(request, system)?;
        let in_place: Vec<PathBuf> = request.image.iter().map(PathBuf::from).collect();
        let files = if request.write_image { &in_place } else { &backing };
        if files.is_empty() {
            let count = stores_needed(system).max(1) as u64;
            let share = request.memory.unwrap_or_else(|| free_bytes() / 2) / count;
            if let Some(memory) = request.memory {
                check_memory(memory, count, self.console)?;
            }
            return Ok(Opened { stores: self.in_memory(system, share), folders: Vec::new() });
        }
        let (mut stores, mut folders) = (Vec::new(), Vec::new());
        for ((volume, &size), path) in numbers(system).zip(&self.sizes_bytes).zip(files) {
            let sums_until_end = request.write_image;
            let options = store::Options { sums_until_end, ..options(system, volume) };
            let opened = if system.is_device(volume) {
                let root = system.volumes[volume as usize].root;
                Store::in_file(path, size, options)
                    .map(|store| stores.push((root, store)))
                    .map_err(|e| e.to_string())
            } else {
                VolumeFolder::open(path, system, volume, options).map(|mut of| {
                    for (part, folder) in &of.folders {
                        self.words += &array_in_words(folder, &system.parts[part.index()]);
                    }
                    stores.append(&mut of.stores);
                    folders.append(&mut of.folders);
                })
            };
            if let Err(why) = opened {
                VolumeFolder { stores, folders }.abandon();
                return Err(ServeError::target(why));
            }
        }
        // Devices come first, then the caches of adapters.
        stores.sort_by_key(|of| of.0);
        Ok(Opened { stores: stores.into_iter().map(|of| of.1).collect(), folders })
    }

    /// Creates stores that keep data in memory, at most `share` bytes each.
    fn in_memory(&mut self, system: &System, share: u64) -> Vec<Store> {
        let mut images = self.images.drain(..);
        let mut stores = Vec::new();
        for (volume, &size) in numbers(system).zip(&self.sizes_bytes) {
            let options = options(system, volume);
            let root = system.volumes[volume as usize].root;
            if !system.is_device(volume) {
                let bytes = |part| system.part_capacity_bytes(part);
                let store = |part| (part, Store::in_memory(bytes(part), share, options));
                stores.extend(system.devices_below(root).map(store));
                continue;
            }
            let store = match images.next() {
                Some(image) => Store::over_image(image, size, share, options),
                None => Store::in_memory(size, share, options),
            };
            stores.push((root, store));
        }
        stores.sort_by_key(|of| of.0);
        let caches = system.paths().filter(|_| system.has_cache()).map(|(_, path)| {
            Store::in_memory(path.capacity_bytes, share, store::Options::default())
        });
        stores.into_iter().map(|of| of.1).chain(caches).collect()
    }

    /// Returns the numbering of devices and volumes for fault commands.
    pub(crate) fn numbered(&self, system: &System) -> Numbered {
        Numbered::of(system, self.sizes_bytes.clone())
    }
}

/// A server's open stores and array folders.
pub(crate) struct Opened {
    /// Stores of all devices, followed by the stores of the adapters' caches.
    pub(crate) stores: Vec<Store>,
    /// Folders that contain arrays, each with the id of its array.
    pub(crate) folders: Vec<(PartId, ArrayFolder)>,
}

/// Returns the path of a file or folder for each volume. Volumes behind adapters may have a single folder
/// together, with a subfolder for each volume.
fn backing(request: &ServeRequest, system: &System) -> Result<Vec<PathBuf>, ServeError> {
    let volumes = system.volumes.len();
    if let [folder] = request.backing.as_slice()
        && volumes > 1
        && system.adapters.is_some()
    {
        return volume_folders(folder, volumes)
            .map_err(|why| ServeError::target(format!("--backing {why}")));
    }
    one_for_each(system, "--backing", request.backing.len())?;
    Ok(request.backing.clone())
}

/// Describes what was found when an array's folder was opened: resynchronised blocks, cached data, missing
/// members.
fn array_in_words(folder: &ArrayFolder, part: &Part) -> String {
    let mut words = String::new();
    let path = clean(&folder.path().to_string_lossy()).into_owned();
    if folder.resynced_units() > 0 {
        let units = counted(folder.resynced_units(), "unit");
        let _ = writeln!(
            words,
            "array   {path}: its server was killed; {units} of 4 KiB resynchronised"
        );
    }
    if folder.cached_units() > 0 {
        let units = counted(folder.cached_units(), "unit");
        let _ = writeln!(
            words,
            "cache   {path}: the adapters' cache held {units} of 4 KiB, now written to the devices"
        );
    }
    let missing: Vec<String> = folder.missing().iter().map(|m| m.to_string()).collect();
    if !missing.is_empty() {
        let all = if let Part::Array(array) = part { array.members.len() } else { 1 };
        let missing = missing.join(" and ");
        let _ = writeln!(words, "array   {path}, {all} members; missing until replaced: {missing}");
    }
    words
}

fn numbers(system: &System) -> Range<u32> {
    0..system.volumes.len() as u32
}

fn one_for_each(system: &System, flag: &str, given: usize) -> Result<(), ServeError> {
    let volumes = system.volumes.len();
    if given == 0 || given == volumes {
        return Ok(());
    }
    Err(ServeError::input(format!(
        "{}, but {} in {flag}: name one file for each volume",
        counted(volumes as u64, "volume"),
        counted(given as u64, "file")
    )))
}

/// Opens a disk image for reading only.
fn image(text: &str, console: Console) -> Result<Image, ServeError> {
    if text.contains("://") {
        let uri: Uri =
            text.parse().map_err(|e| ServeError::input(format!("--image {text}: {e}")))?;
        let image = Image::export(&uri).map_err(|e| ServeError::target(format!("--image: {e}")))?;
        // Through this connection: some servers accept only one.
        let mut read = |offset_bytes, into: &mut [u8]| {
            image.read(offset_bytes, into).map_err(|e| std::io::Error::other(e.to_string()))
        };
        let content = probe(image.size_bytes(), &mut read)
            .map_err(|e| ServeError::target(format!("--image {text}: {e}")))?;
        check_raw(text, Some(&content))?;
        return Ok(image);
    }
    let image =
        Image::file(Path::new(text)).map_err(|e| ServeError::target(format!("--image {e}")))?;
    for why in in_use(text)? {
        (console.remark)("warning", &format!("{text} may change while it is served: {why}"));
    }
    Ok(image)
}

/// Returns the size in bytes of an image that clients may write to. Refuses an image that is in use.
fn writable_bytes(text: &str) -> Result<u64, ServeError> {
    if text.contains("://") {
        return Err(ServeError::input(format!(
            "--write-image requires a file, but {text} is an export: leave the flag out, and clients' writes stay in memory"
        )));
    }
    let metadata = std::fs::metadata(text);
    let metadata = metadata.map_err(|e| ServeError::target(format!("--image {text}: {e}")))?;
    match in_use(text)?.as_slice() {
        [] if metadata.len() == 0 => Err(ServeError::target(format!(
            "--image {text} is an empty file; for a new, empty volume use --backing"
        ))),
        [] => Ok(metadata.len()),
        reasons => Err(ServeError::target(format!("--image {text}: {}", reasons.join(" ")))),
    }
}

/// Refuses an image in a format other than raw. Clients would see the bytes of the image file itself, and
/// writes would destroy the image.
fn check_raw(text: &str, content: Option<&Content>) -> Result<(), ServeError> {
    let container = content.and_then(Content::container);
    let Some(Signature { kind, name, .. }) = container else { return Ok(()) };
    let remedy = if *kind == SignatureKind::DiskImage {
        "serve it with `qemu-nbd` and name that export here, or convert it with `qemu-img convert -O raw`"
    } else {
        "unpack it first"
    };
    Err(ServeError::input(format!(
        "--image {text}: it holds {} ({name}), but an image must be raw: {remedy}",
        kind.noun()
    )))
}

/// Returns the reasons why another program may be using an image file. Unlike for other targets, existing
/// data is not a reason. Refuses a file that is not a raw image.
fn in_use(path: &str) -> Result<Vec<String>, ServeError> {
    use RefusalCode::{ForeignFile, HoldsData, PartitionTable, Signature, UnknownContent};
    let name = TargetName::Path { path: path.into(), size_bytes: None, direct: Direct::default() };
    let inspection = inspect(&name).map_err(|e| ServeError::target(e.to_string()))?;
    check_raw(path, inspection.content.as_ref())?;
    let of_content = [ForeignFile, HoldsData, PartitionTable, Signature, UnknownContent];
    let refusals = check_writable(&inspection, &SysRoot::real()).into_iter();
    let of_use = refusals.filter(|refusal| !of_content.contains(&refusal.code));
    Ok(of_use.map(|refusal| refusal.found).collect())
}

fn options(system: &System, volume: u32) -> store::Options {
    let emptied = system.is_emptied_by_power_failure(volume);
    let holes_for_zeroes = !system.is_device(volume);
    store::Options {
        emptied_by_power_failure: emptied,
        holes_for_zeroes,
        ..store::Options::default()
    }
}

/// Refuses a memory limit that is too small for any write. Warns if the limit exceeds the machine's free
/// memory.
fn check_memory(memory_bytes: u64, volumes: u64, console: Console) -> Result<(), ServeError> {
    let least = volumes * MEMORY_BYTES_MIN;
    if memory_bytes < least {
        let for_each = if volumes == 1 { "" } else { ", 1 MiB for each volume" };
        return Err(ServeError::input(format!(
            "--memory {} is too little: clients' writes would fail for lack of space; use {} or more{for_each}, or keep the data in a file (--backing)",
            human::size(memory_bytes),
            human::size(least)
        )));
    }
    let free = free_bytes();
    if memory_bytes > free {
        (console.say)(&format!(
            "warning: --memory {} is more than the {} that are free on this machine: the machine may run out of memory before the volumes reach this limit\n",
            human::size(memory_bytes),
            human::size(free)
        ));
    }
    Ok(())
}

/// Memory of this machine that is free or reclaimable, bytes.
fn free_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(2 << 30, |kib| kib * 1024)
}
