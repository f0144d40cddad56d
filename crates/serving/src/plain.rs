//! `serve ram:4GiB`: serves plain memory over NBD, without a model. Shows the highest speed that a client and its
//! transport can reach. Faults can be injected into requests and replies only.

mod faulty;

use crate::apply_fault::{STOPS, done};
use crate::error::ServeError;
use crate::interface::{AT_INTERFACE, Interface, at_interface};
use crate::numbered::Numbered;
use crate::request::{Console, ServeRequest};
use crate::setup::{addresses, begin, control, insert, places, start, wait};
use faulty::Faulty;
use iodyno_emulate::Fault;
use iodyno_live::fault_command::{self, Ask, Effect, in_effect};
use iodyno_live::status::{InterfaceFaultStatus, MemoryStatus, Named, Status};
use iodyno_nbd::ram::Ram;
use iodyno_nbd::{Export, Exports, Kind, Server};
use iodyno_units::human;
use serde_json::{Value, json};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Serves plain memory until the stop flag is set or the command in the request ends.
pub(crate) fn serve(
    request: &ServeRequest,
    size_bytes: u64,
    console: Console,
    stop: &Arc<AtomicBool>,
) -> Result<Option<ExitStatus>, ServeError> {
    let size = human::size(size_bytes);
    let disk = Ram::new(size_bytes).map_err(|e| ServeError::target(format!("{size}: {e}")))?;
    let disk = if request.read_only { disk.read_only() } else { disk };
    let faults = Arc::new(Interface::default());
    let export: Arc<dyn Export> = Arc::new(Faulty { disk, faults: Arc::clone(&faults) });
    let exports = Arc::new(Exports::default());
    insert(&exports, "ram", true, export);
    let asked = Arc::clone(stop);
    // The control socket exists before the server, and must not keep it alive.
    let served = Arc::new(OnceLock::<Weak<Server>>::new());
    let counts = Arc::clone(&served);
    let answer = move |line: &str| {
        answer(line, &asked, (size_bytes, &faults), || status(size_bytes, counts.get(), &faults))
    };
    let control = control(request, Arc::new(answer))?;
    let server = Arc::new(start(request, &exports)?);
    let _ = served.set(Arc::downgrade(&server));
    if request.command.is_empty() {
        (console.say)(&format!("serving ram  {size}\n{}", addresses(request, &server)));
    }
    let command = begin(request, &places(request, &server), console)?;
    let ended = wait(command, stop, console, Vec::new);
    drop(control);
    // Dropping the last reference stops the server.
    drop(server);
    ended
}

/// Returns the status as JSON. All counts are 0 if the server has not started.
fn status(size_bytes: u64, server: Option<&Weak<Server>>, faults: &Interface) -> Value {
    let server = server.and_then(Weak::upgrade);
    let seen = server.map(|server| server.counters()).unwrap_or_default();
    let requests = Kind::ALL.map(|kind| (kind.name().to_owned(), seen.requests[kind as usize]));
    Status::Memory(MemoryStatus {
        size_bytes,
        connections: seen.connections,
        requests: Named(requests.into_iter().filter(|(_, n)| *n > 0).collect()),
        read_bytes: seen.read_bytes,
        written_bytes: seen.written_bytes,
        errors: seen.errors + seen.refused,
        interface_faults: InterfaceFaultStatus::of_all(&faults.listed()),
    })
    .to_json()
}

fn answer(
    line: &str,
    stop: &AtomicBool,
    served: (u64, &Interface),
    status: impl Fn() -> Value,
) -> Value {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["stop"] => {
            stop.store(true, Ordering::Relaxed);
            done(STOPS)
        }
        ["status"] => status(),
        ["metrics"] => {
            json!({ "error": "plain memory has no metrics, because metrics describe the model" })
        }
        words => fault_command::parse(words)
            .and_then(|ask| apply(served, &at_interface(ask)))
            .unwrap_or_else(|why| json!({ "error": why })),
    }
}

/// Applies a fault command to the interface of a disk of `size_bytes`.
fn apply((size_bytes, faults): (u64, &Interface), ask: &Ask) -> Result<Value, String> {
    let numbered = Numbered::alone(vec![size_bytes]);
    numbered.check(ask)?;
    match *ask {
        Ask::Interface { fault, .. } => faults.add(fault),
        Ask::ClearAll | Ask::Fault(Fault::Clear { .. }) => faults.clear(),
        _ => {
            return Err(format!(
                "plain memory supports only faults at its interface ({AT_INTERFACE}): serve an emulated device for other faults"
            ));
        }
    }
    Ok(done(&in_effect(ask, false, numbered.device, &Effect::Usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_ends_the_faults_with_and_without_a_number() {
        let faults = Interface::default();
        let say = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            let ask = fault_command::parse(&words).unwrap();
            apply((1 << 20, &faults), &at_interface(ask))
        };
        for clear in ["clear", "clear 0"] {
            say("error EIO").unwrap();
            assert_eq!(faults.listed().len(), 1);
            say(clear).unwrap();
            assert!(faults.is_empty(), "{clear}");
        }
        assert!(say("clear 1").unwrap_err().contains("there is no volume 1"));
    }

    #[test]
    fn a_request_for_metrics_is_not_a_fault() {
        let (stop, faults) = (AtomicBool::new(false), Interface::default());
        let said = answer("metrics", &stop, (1 << 20, &faults), || Value::Null);
        assert_eq!(
            said["error"],
            "plain memory has no metrics, because metrics describe the model"
        );
    }
}
