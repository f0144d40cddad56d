//! Forms for the commands `explain` and `size`. The response to a form is the output of its command. The server runs
//! the program itself, so the page shows exactly what the command prints. Neither command writes anything, and no field
//! accepts the name of a file.

use crate::Site;
use crate::http::Request;
use iodyno_units::text::{clean_lines, for_shell};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time limit for a command.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum length of a field's value, bytes.
const VALUE_BYTES_MAX: usize = 64;
/// Maximum size of a command's output, bytes.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;
/// Width of the output, columns.
const COLUMNS: &str = "108";
/// Interval at which the end of a command is checked.
const END_EVERY: Duration = Duration::from_millis(10);

/// Values that a field accepts.
#[derive(Clone, Copy, Debug)]
enum Values {
    Devices,
    Workloads,
    OneOf(&'static [&'static str]),
    /// Free text; the page shows this example.
    Like(&'static str),
}

#[derive(Debug)]
struct Field {
    /// Key in the address; also the flag of the command, unless the value is positional.
    key: &'static str,
    label: &'static str,
    values: Values,
    is_positional: bool,
    is_required: bool,
}

/// A form, and the command that answers it.
#[derive(Debug)]
pub(crate) struct Form {
    /// Name of the command, and of the page.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    fields: &'static [Field],
}

const fn field(key: &'static str, label: &'static str, values: Values) -> Field {
    Field { key, label, values, is_positional: false, is_required: false }
}

const fn required(key: &'static str, label: &'static str, values: Values) -> Field {
    Field { is_required: true, ..field(key, label, values) }
}

const FORMS: [Form; 2] = [
    Form {
        name: "explain",
        title: "Explain",
        about: "Where the time of an I/O to an emulated device goes, and which resource is the bottleneck.",
        fields: &[
            Field { is_positional: true, ..required("device", "Device", Values::Devices) },
            Field { is_positional: true, ..field("workload", "Workload", Values::Workloads) },
            field("threads", "Threads", Values::Like("4")),
            field("depth", "Depth", Values::Like("32")),
            field("block", "Block size", Values::Like("4KiB")),
        ],
    },
    Form {
        name: "size",
        title: "Size",
        about: "The fewest devices and adapters that sustain a rate within a latency limit, by simulation. A search of the whole catalog takes up to a minute.",
        fields: &[
            required("workload", "Workload", Values::Workloads),
            required("rate", "Rate", Values::Like("150k/s")),
            required("p99", "p99 at most", Values::Like("2ms")),
            field("capacity", "Capacity at least", Values::Like("20TB")),
            field("device", "Device", Values::Devices),
            field("raid", "RAID level", Values::OneOf(&["0", "5", "6", "10"])),
            field("survive", "Survive the loss of", Values::OneOf(&["device", "adapter", "link"])),
        ],
    },
];

/// A field as the page shows it.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) key: &'static str,
    pub(crate) label: &'static str,
    pub(crate) value: String,
    /// Example of a value; empty if the field is a choice.
    pub(crate) example: &'static str,
    pub(crate) choices: Vec<String>,
    pub(crate) is_required: bool,
}

/// Runs the commands of forms.
#[derive(Debug)]
pub(crate) struct Forms {
    program: PathBuf,
    devices: Vec<String>,
    workloads: Vec<String>,
    /// Held while a command runs, because each command uses all processors.
    one_at_a_time: Mutex<()>,
}

impl Forms {
    pub(crate) fn new(site: &Site) -> Self {
        Self {
            program: site.program.clone(),
            devices: site.devices.clone(),
            workloads: site.workloads.clone(),
            one_at_a_time: Mutex::default(),
        }
    }

    /// The form of a page; `None` if there is none of this name.
    pub(crate) fn find(name: &str) -> Option<&'static Form> {
        FORMS.iter().find(|form| form.name == name)
    }

    fn choices(&self, values: Values) -> Vec<String> {
        match values {
            Values::Devices => self.devices.clone(),
            Values::Workloads => self.workloads.clone(),
            Values::OneOf(all) => all.iter().map(|value| (*value).to_owned()).collect(),
            Values::Like(_) => Vec::new(),
        }
    }

    /// Fields of a form, with the values of the request.
    pub(crate) fn shown(&self, form: &Form, request: &Request) -> Vec<Shown> {
        let shown = |field: &Field| Shown {
            key: field.key,
            label: field.label,
            value: value(request, field.key),
            example: if let Values::Like(example) = field.values { example } else { "" },
            choices: self.choices(field.values),
            is_required: field.is_required,
        };
        form.fields.iter().map(shown).collect()
    }

    /// Command line that answers a request; `None` if the form is empty.
    ///
    /// # Errors
    /// A required value is missing, or a value is not one of the choices.
    pub(crate) fn words(
        &self,
        form: &Form,
        request: &Request,
    ) -> Result<Option<Vec<String>>, String> {
        let mut words = vec![form.name.to_owned()];
        for field in form.fields {
            let value = value(request, field.key);
            let choices = self.choices(field.values);
            let is_choice = !matches!(field.values, Values::Like(_));
            if value.is_empty() {
                continue;
            }
            if value.len() > VALUE_BYTES_MAX || is_choice && !choices.contains(&value) {
                return Err(format!("{}: choose one from the list", field.label));
            }
            if field.is_positional {
                words.push(value);
            } else {
                words.push(format!("--{}={value}", field.key));
            }
        }
        if words.len() == 1 {
            return Ok(None);
        }
        let missing =
            form.fields.iter().find(|f| f.is_required && value(request, f.key).is_empty());
        match missing {
            Some(field) => Err(format!("{} is missing", field.label)),
            None => Ok(Some(words)),
        }
    }

    /// Output of a command, or its error message.
    pub(crate) fn answer(&self, words: &[String]) -> Result<String, String> {
        let _guard = self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner);
        output(&self.program, words)
    }
}

/// Formats a command line as a user would type it.
pub(crate) fn command_line(words: &[String]) -> String {
    let words = words.iter().map(|word| for_shell(word));
    std::iter::once("iodyno".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn value(request: &Request, key: &str) -> String {
    request.values(key).next().map_or(String::new(), |value| value.trim().to_owned())
}

fn output(program: &Path, words: &[String]) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", program.display());
    let mut child = Command::new(program)
        .args(words)
        .args(["--color", "never"])
        .env("COLUMNS", COLUMNS)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let read = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(pipe) = pipe {
                let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
            }
            clean_lines(&String::from_utf8_lossy(&bytes)).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let errors = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break Some(status),
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(END_EVERY),
        }
    };
    let [out, errors] = [out, errors].map(|thread| thread.join().unwrap_or_default());
    match status {
        None => Err(format!(
            "the command took longer than {} s and was ended: run it in a terminal",
            TIMEOUT.as_secs()
        )),
        Some(_) if !out.trim().is_empty() => Ok(out),
        Some(_) => Err(errors.trim().to_owned()),
    }
}
