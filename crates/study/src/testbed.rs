//! Systems tested in a study: a server and a type of device from the catalog, with the study's settings.

use core::ops::Range;
use iodyno_catalog::{Entry, File, Kind, Problem, Record, find};
use iodyno_emulate::System;
use iodyno_emulate::describe::{self, DescribedSystem, Parameter};
use iodyno_emulate::spec::{self, Attach, Device, Host, Preconditioned, Written};
use iodyno_run::{Files, emulated};
use iodyno_targets::{ArrayName, ModelName, TargetName};
use std::sync::Arc;

/// A tested system: a server, populated with one type of device.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Name of the system in the paper.
    pub name: String,
    /// Name of the system's entry in the study file. Systems with different arrays may share an entry.
    pub entry: String,
    /// Server as named in the study file: by its name in the catalog, or by a path.
    pub host_file: String,
    /// The server's name in the catalog.
    pub host_name: String,
    /// The server, with the study's settings for sockets and memory channels.
    pub host: Host,
    /// Whether the study overrides the socket of the threads or the population of the memory channels.
    pub host_differs: bool,
    /// The type of device in the system, with all its parameters.
    pub device: Device,
    /// Whether the devices are attached to RAID adapters of the server.
    pub has_adapters: bool,
    /// Array that the devices form; None: each device is a volume of its own.
    pub array: Option<ArrayName>,
    /// A volume in the syntax of a target name, without the number of volumes, such as `raid5(hdd*8)` in
    /// `model:raid5(hdd*8)*2`.
    pub volume: String,
    /// Number of devices in tables and figures that have no axis for this number; in a sizing table, the maximum number
    /// of devices that can be attached. None: all tables and figures of the system must have the axis.
    pub devices: Option<u32>,
    /// Outstanding operations per volume in tables and figures that have no axis for the depth; None: the workload
    /// specifies it.
    pub depth: Option<u32>,
    /// Bandwidth of the links between host and devices, bytes/s; None if unknown.
    pub link_bytes_per_s: Option<f64>,
    /// Minimum warm-up for workloads with writes, ns: the time over which earlier writes affect the results.
    pub ramp_ns: u64,
    /// Index in `Study::systems` of a system with another description of the same device. The simulated values of that
    /// system are the baseline (null model) for this one; None if there is no such system.
    pub competitor: Option<usize>,
    /// Whether the system appears only in tables and figures that name it explicitly.
    pub only_named: bool,
    /// Remarks on the system; mostly empty.
    pub note: String,
    /// Deviations of the study from the device and server files: for arrays, as options of a target name, otherwise as
    /// a description. Empty without deviations.
    pub options: String,
}

/// Data-sheet rates of a single device.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberRates {
    /// Name of the device in the catalog.
    pub device: String,
    /// Random 4 KiB reads per second, and random 4 KiB writes per second.
    pub random_iops: (f64, f64),
    /// Bandwidth of sequential reads, and of sequential writes, bytes/s.
    pub bytes_per_s: (f64, f64),
}

impl MemberRates {
    pub(crate) fn read(raw: &Record) -> Self {
        let count = |key| raw.whole(key).unwrap_or(1) as f64;
        let rate = |key| raw.real(key).unwrap_or(1.0);
        Self {
            device: raw.said("device").to_owned(),
            random_iops: (count("reads"), count("writes")),
            bytes_per_s: (rate("read"), rate("write")),
        }
    }
}

/// A parameter of a model, and the device or server to which it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Name of the device or server to which the parameter belongs.
    pub of: String,
    pub parameter: Parameter,
}

impl Bench {
    /// Name of the array, or of the device if there is no array.
    pub fn device_or_array(&self) -> &str {
        if self.array.is_some() { &self.volume } else { &self.device.name }
    }

    /// Number of devices per volume: the members of the array, or 1 without an array.
    pub fn members(&self) -> u32 {
        self.array.map_or(1, |array| array.members)
    }

    /// Builds the server with `devices` devices. Each device is preconditioned: the fraction `fill` of its capacity is
    /// written in the pattern `written`. `scale` divides the capacity of flash devices. `appends`: writes to a zoned
    /// device are appends. Both have no effect on devices in arrays or behind RAID adapters.
    ///
    /// # Errors
    /// The number of devices breaks a population rule of the server, which the message names.
    pub fn system(
        &self,
        devices: u32,
        written: Written,
        fill: f64,
        scale: u32,
        appends: bool,
    ) -> Result<Arc<System>, String> {
        let how = match (written, self.array.and_then(|array| array.strip_bytes)) {
            // A member receives at most one strip of a write at a time.
            (Written::Random { block_bytes }, Some(strip)) => Written::Random {
                block_bytes: block_bytes.min(u32::try_from(strip).unwrap_or(u32::MAX)),
            },
            _ => written,
        };
        let state = Preconditioned { how, fill };
        if self.array.is_some() || self.has_adapters {
            let members = self.members();
            if devices == 0 || !devices.is_multiple_of(members) {
                return Err(format!(
                    "the number must be a multiple of {members}, the members of an array"
                ));
            }
            let mut system = self.arrays(devices / members)?;
            system.volumes.iter_mut().for_each(|volume| volume.state = state);
            if self.host_differs {
                system.host = self.host.clone();
            }
            return Ok(Arc::new(system));
        }
        let mut device = self.device.clone();
        if let spec::Kind::Flash(flash) = &mut device.kind {
            flash.scale_down(scale);
            if let Some(zones) = &mut flash.zones {
                zones.appends = appends;
            }
        }
        let devices = vec![(device, state); devices as usize];
        let system = System::populate(self.name.as_str(), self.host.clone(), devices);
        system.map(Arc::new).map_err(|broken| {
            let all: Vec<String> = broken.iter().map(ToString::to_string).collect();
            all.join("; ")
        })
    }

    /// Builds a system of `count` arrays by means of a target name.
    fn arrays(&self, count: u32) -> Result<System, String> {
        let query = if self.options.is_empty() { "" } else { "?" };
        let name =
            format!("model:{}*{count}@{}{query}{}", self.volume, self.host_file, self.options);
        let target = TargetName::parse(&name).map_err(|e| e.to_string())?;
        let found = emulated(&[target], &mut Files::default()).map_err(|e| e.to_string())?;
        found.map(|found| found.system).ok_or_else(|| format!("`{name}` is not emulated"))
    }
}

/// Reads a system entry of the study file. If it lists several arrays, returns one system per array, with the
/// RAID level appended to its name. Adds the systems' parameters to `all`.
pub(crate) fn benches(
    file: &File,
    raw: &Record,
    all: &mut Vec<Owned>,
) -> Result<Vec<Bench>, Problem> {
    let arrays = raw.items("arrays");
    if raw.get("device").is_some() != arrays.is_empty() {
        let message = "a system must have either a `device` or `arrays`";
        return Err(Problem::at(file, raw.place("name"), message, None));
    }
    if arrays.is_empty() {
        return Ok(vec![bench(file, raw, raw.said("device"), raw.place("device"), all)?]);
    }
    let one = |entry: &Entry| {
        let volume = entry.text().unwrap_or_default();
        let mut bench = bench(file, raw, volume, entry.span.clone(), all)?;
        let level = volume.split('(').next().unwrap_or_default();
        bench.name = format!("{}-{level}", bench.name);
        Ok(bench)
    };
    arrays.iter().map(one).collect()
}

/// Reads the competitor of a system: the system's server and settings, with another description of the device.
pub(crate) fn competitor(
    file: &File,
    raw: &Record,
    all: &mut Vec<Owned>,
) -> Result<Bench, Problem> {
    let device = raw.said("competitor");
    let bench = bench(file, raw, device, raw.place("competitor"), all)?;
    Ok(Bench { name: device.to_owned(), only_named: true, ..bench })
}

/// Reads the server and the device of one system, and adds their parameters to `all`.
fn bench(
    file: &File,
    raw: &Record,
    volume: &str,
    place: Range<usize>,
    all: &mut Vec<Owned>,
) -> Result<Bench, Problem> {
    let host = host(file, raw.said("host"), raw.place("host"), all)?;
    let (array, device) = match TargetName::parse(&format!("model:{volume}")) {
        Ok(TargetName::Model(name)) if name.arrays.len() > 1 => {
            let message = "the members of a study's arrays must be devices";
            return Err(Problem::at(file, place, message, None));
        }
        Ok(TargetName::Model(ModelName { arrays, what, .. })) if !arrays.is_empty() => {
            (arrays.first().copied(), what)
        }
        Err(error) if volume.contains('(') => {
            return Err(Problem::at(file, place, error.to_string(), None));
        }
        _ => (None, volume.to_owned()),
    };
    if array.is_none() && raw.get("options").is_some() {
        let message = "only arrays take `options`";
        return Err(Problem::at(file, raw.place("options"), message, None));
    }
    let found = find(Kind::Device, &device).map_err(|p| named_in(file, place, &p))?;
    let found = found.named_by_file();
    let described = describe::device(&found.name, &found.text)
        .map_err(|errors| Problem::of(&found, &errors))?;
    note(all, &found.name, described.parameters);
    let mut device = described.device;
    let mut options = raw.text("options").unwrap_or_default().to_owned();
    if raw.word("occupancy") == Some("max") {
        let at = || raw.place("occupancy");
        let spec::Kind::Flash(flash) = &mut device.kind else {
            return Err(no_driver(file, at(), &device.name));
        };
        let Attach::MemoryChannel { devices_per_thread, .. } = &mut flash.attach else {
            return Err(no_driver(file, at(), &device.name));
        };
        *devices_per_thread = 1;
        "one driver thread per device".clone_into(&mut options);
    }
    if array.is_none() && raw.word("memory") == Some("unbalanced") {
        let before = if options.is_empty() { "" } else { ", " };
        options = format!("{options}{before}unbalanced memory");
    }
    let small = |key: &str| raw.whole(key).and_then(|n| u32::try_from(n).ok());
    let members = array.map_or(1, |array| array.members);
    let a_device = small("depth_a_device").map(|depth| depth * members);
    Ok(Bench {
        name: raw.said("name").to_owned(),
        entry: raw.said("name").to_owned(),
        host_file: raw.said("host").to_owned(),
        host_name: host.name.clone(),
        has_adapters: host.adapters.is_some(),
        host_differs: raw.word("socket").is_some() || raw.word("memory").is_some(),
        host: with_memory(on_socket(host.host, raw.word("socket")), raw.word("memory")),
        device,
        array,
        volume: volume.to_owned(),
        devices: small("devices"),
        depth: small("depth").or(a_device),
        link_bytes_per_s: raw.real("link"),
        ramp_ns: raw.whole("ramp").unwrap_or(0),
        competitor: None,
        only_named: raw.flag("only_named") == Some(true),
        note: raw.text("note").unwrap_or_default().to_owned(),
        options,
    })
}

/// Places all threads on the socket of their flash DIMM (`near`) or on another one. Without `socket`, returns
/// the server unchanged.
fn on_socket(host: Host, socket: Option<&str>) -> Host {
    match socket {
        Some("near") => Host { workers_near: true, ..host },
        Some(_) => {
            // The machine averages the factor over all sockets, so it is raised to give the full factor.
            let sockets = f64::from(host.sockets.max(2));
            let farther = (host.remote_copy_factor - 1.0) * sockets / (sockets - 1.0);
            Host { workers_near: false, remote_copy_factor: 1.0 + farther, ..host }
        }
        None => host,
    }
}

/// Sets whether the server's memory channels are balanced. Without `memory`, returns the server unchanged.
fn with_memory(host: Host, memory: Option<&str>) -> Host {
    match memory {
        Some(word) => Host { memory_balanced: word == "balanced", ..host },
        None => host,
    }
}

/// Reads a server of the catalog, and adds its parameters to `all`.
pub(crate) fn host(
    file: &File,
    name: &str,
    span: Range<usize>,
    all: &mut Vec<Owned>,
) -> Result<DescribedSystem, Problem> {
    let found = find(Kind::System, name).map_err(|p| named_in(file, span, &p))?.named_by_file();
    let described = describe::system(&found.name, &found.text, &mut |base| {
        let base = find(Kind::System, base).map_err(|problem| problem.message().to_owned())?;
        Ok(base.text.to_string())
    });
    let described = described.map_err(|errors| Problem::of(&found, &errors))?;
    note(all, &found.name, described.parameters.clone());
    Ok(described)
}

/// Adds the parameters of a device or server to `all`, unless `all` already contains them.
fn note(all: &mut Vec<Owned>, of: &str, parameters: Vec<Parameter>) {
    if !all.iter().any(|owned| owned.of == of) {
        let own = |parameter| Owned { of: of.to_owned(), parameter };
        all.extend(parameters.into_iter().map(own));
    }
}

/// Moves an error in a named file to the position at which the study file names it.
fn named_in(file: &File, span: Range<usize>, problem: &Problem) -> Problem {
    let help = problem.help().map(ToOwned::to_owned);
    Problem::at(file, span, problem.message(), help)
}

fn no_driver(file: &File, span: Range<usize>, device: &str) -> Problem {
    let message = format!("`occupancy` sets driver threads, but `{device}` has none");
    let help = "remove the key: only devices on the memory channel have driver threads".to_owned();
    Problem::at(file, span, message, Some(help))
}
