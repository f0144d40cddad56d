//! The test bench: a server and a device of the catalog, combined and set as a study needs them.

use core::ops::Range;
use iodyno_catalog::{File, FileError, Kind, Problem, Record, find};
use iodyno_emulate::System;
use iodyno_emulate::describe::{self, DescribedSystem, Parameter};
use iodyno_emulate::spec::{self, Attach, Device, Host, Preconditioned, Written};
use std::sync::Arc;

/// A server that may hold any number of one device.
#[derive(Clone, Debug)]
pub struct Bench {
    /// Its name in the paper.
    pub name: String,
    /// The server's name in the catalog.
    pub host_name: String,
    /// The server.
    pub host: Host,
    /// One device.
    pub device: Device,
    /// Minimum time before the measurement of a workload that writes, ns: as long as earlier writes have an
    /// effect.
    pub ramp_ns: u64,
    /// Remarks on it, in words; mostly empty.
    pub note: String,
    /// The study's settings that differ from the files, in words; empty without any.
    pub options: String,
}

/// A parameter and the file that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Name of the device or server.
    pub of: String,
    /// The parameter.
    pub parameter: Parameter,
}

impl Bench {
    /// This number of devices in the server, all written in the same way before, over their whole capacity.
    ///
    /// # Errors
    /// The rules of population that this number of devices breaks, in a sentence.
    pub fn system(&self, devices: u32, written: Written) -> Result<Arc<System>, String> {
        let state = Preconditioned { how: written, fill: 1.0 };
        let devices = vec![(self.device.clone(), state); devices as usize];
        let system = System::populate(self.name.as_str(), self.host.clone(), devices);
        system.map(Arc::new).map_err(|broken| {
            let all: Vec<String> = broken.iter().map(ToString::to_string).collect();
            all.join("; ")
        })
    }
}

/// Reads the server and the device of one system of the study, and their parameters into `all`.
pub(crate) fn bench(file: &File, raw: &Record, all: &mut Vec<Owned>) -> Result<Bench, Problem> {
    let host = host(file, raw.said("host"), raw.place("host"), all)?;
    let found = find(Kind::Device, raw.said("device"))
        .map_err(|p| named_in(file, raw.place("device"), &p))?;
    let described = describe::device(&found.name, &found.text)
        .map_err(|errors| Problem::of(&found, &errors))?;
    note(all, &found.name, described.parameters);
    let mut device = described.device;
    let mut options = String::new();
    if raw.word("occupancy") == Some("max") {
        let at = || raw.place("occupancy");
        let spec::Kind::Flash(flash) = &mut device.kind else {
            return Err(no_driver(file, at(), &device.name));
        };
        let Attach::MemoryChannel { devices_per_thread, .. } = &mut flash.attach else {
            return Err(no_driver(file, at(), &device.name));
        };
        *devices_per_thread = 1;
        "a driver thread for each device".clone_into(&mut options);
    }
    Ok(Bench {
        name: raw.said("name").to_owned(),
        host_name: host.name.clone(),
        host: host.host,
        device,
        ramp_ns: raw.whole("ramp").unwrap_or(0),
        note: raw.text("note").unwrap_or_default().to_owned(),
        options,
    })
}

/// Reads a server of the catalog, and its parameters into `all`.
pub(crate) fn host(
    file: &File,
    name: &str,
    span: Range<usize>,
    all: &mut Vec<Owned>,
) -> Result<DescribedSystem, Problem> {
    let found = find(Kind::System, name).map_err(|p| named_in(file, span, &p))?;
    let described = on_bases(&found).map_err(|errors| Problem::of(&found, &errors))?;
    note(all, &found.name, described.parameters.clone());
    Ok(described)
}

/// A server with what it has from those that it stands on.
fn on_bases(file: &File) -> Result<DescribedSystem, Vec<FileError>> {
    describe::system_on(&file.name, &file.text, |base| {
        let base = find(Kind::System, base).map_err(|problem| problem.message().to_owned())?;
        on_bases(&base).map_err(|errors| format!("`{}` is wrong: {}", base.name, errors[0].message))
    })
}

/// Adds a file's parameters once, however many systems use it.
fn note(all: &mut Vec<Owned>, of: &str, parameters: Vec<Parameter>) {
    if !all.iter().any(|owned| owned.of == of) {
        let own = |parameter| Owned { of: of.to_owned(), parameter };
        all.extend(parameters.into_iter().map(own));
    }
}

/// The error in a name, at the place where the study names it.
fn named_in(file: &File, span: Range<usize>, problem: &Problem) -> Problem {
    let help = problem.help().map(ToOwned::to_owned);
    Problem::at(file, span, problem.message(), help)
}

fn no_driver(file: &File, span: Range<usize>, device: &str) -> Problem {
    let message = format!("`{device}` has no driver threads to set `occupancy` of");
    let help = "only a device on the memory channel has; take the key out".to_owned();
    Problem::at(file, span, message, Some(help))
}
