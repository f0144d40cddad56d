//! `size`: finds how many devices and adapters of each kind meet a demand.

mod like;

use crate::args::Size;
use crate::console::{print, print_json};
use crate::failure::{Failure, NOT_HELD};
use crate::live::LiveLine;
use crate::named_work::NamedWork;
use crate::{report, signals};
use iodyno_catalog::input::read_text;
use iodyno_catalog::{File, FileError, Kind, MAX_FILE_BYTES, Problem};
use iodyno_exchange::fio::Process;
use iodyno_page::terminal::Style;
use iodyno_raid::Level;
use iodyno_run::RunError;
use iodyno_sizing::cloud::{self, CloudPrices, size_cloud};
use iodyno_sizing::{
    Choice, Demand, Limit, LogDemand, Loss, Prices, Tail, candidates, json, page, saturate, size,
    terminal,
};
use iodyno_units::text::for_shell;
use iodyno_units::{OpKind, human};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// Removes items that equal an earlier one. Keeps the order of the others.
fn once_each<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

pub(crate) fn command(
    flags: &Size,
    notebook: Option<&Path>,
    words: &[OsString],
    style: Style,
) -> Result<ExitCode, Failure> {
    let choice = Choice {
        hosts: once_each(flags.adapter.iter().cloned()),
        devices: once_each(flags.device.iter().cloned()),
        levels: once_each(flags.raid.iter().filter_map(|level| of_word(level))),
        width: flags.width,
    };
    let program = std::iter::once("iodyno".to_owned());
    let command: Vec<String> = program
        .chain(words.iter().skip(1).map(|word| for_shell(&word.to_string_lossy())))
        .collect();
    let command = command.join(" ");
    if let Some(host) = &flags.saturate {
        return saturated(flags, host, choice, style);
    }
    let demand = Demand {
        limits: limits(flags),
        survive: flags.survive.as_deref().and_then(loss),
        life_years: flags.life,
        capacity_bytes: flags.capacity.unwrap_or(0),
        ..demand(flags, notebook)?
    };
    if let Some(cloud) = &flags.cloud {
        let Some(path) = &flags.price else {
            return Err(Failure::input(
                "--cloud requires --price FILE: `iodyno catalog cloud-2026-11 > prices.toml` writes an example to edit, then add --price prices.toml",
            ));
        };
        return on_cloud(demand, cloud, path, flags, style);
    }
    let prices = flags.price.as_deref().map(|path| prices(path, Prices::from_toml)).transpose()?;
    let candidates = candidates(&choice)?;
    // Detect an unwritable page before the work.
    let page_at = flags.report.as_ref().map(|file| report::Place::check(file.as_deref()));
    let page_at = page_at.transpose()?;
    let stop = signals::stop_flag();
    let (live, started) = (Mutex::new(LiveLine::new(flags.quiet)), Instant::now());
    let sizing = size(demand, candidates, prices, &stop, &|cells| {
        // Skip if another thread is drawing.
        if let Ok(mut live) = live.try_lock() {
            let took = human::duration_ns(started.elapsed().as_nanos() as u64);
            live.draw(&format!("{cells} cells simulated  {took}"));
        }
    });
    if let Ok(mut live) = live.lock() {
        live.clear();
    }
    let sizing = sizing.map_err(|e| match e {
        RunError::Interrupted => Failure::interrupted("the search was interrupted"),
        other => other.into(),
    })?;
    if let Some(page_at) = page_at {
        let out = page_at.output("size.html")?;
        report::write(&page::document(&sizing, &report::made_by(), &command), out)?;
    }
    let code = if flags.json {
        print_json(&json::document(&sizing))?
    } else {
        print(&terminal::show(&sizing, style))?
    };
    Ok(if sizing.rows.is_empty() { ExitCode::from(NOT_HELD) } else { code })
}

/// Finds the cheapest cloud volumes (`iodyno size --cloud`).
fn on_cloud(
    demand: Demand,
    provider: &str,
    path: &Path,
    flags: &Size,
    style: Style,
) -> Result<ExitCode, Failure> {
    let prices = prices(path, CloudPrices::from_toml)?;
    let instance = flags.instance.as_deref();
    let stop = signals::stop_flag();
    let answer = size_cloud(demand, provider, &prices, instance, flags.volumes, &stop);
    let answer = answer.map_err(|e| match e {
        RunError::Interrupted => Failure::interrupted("the search was interrupted"),
        other => other.into(),
    })?;
    let code = if flags.json {
        print_json(&cloud::document(&answer))?
    } else {
        print(&cloud::show(&answer, style))?
    };
    Ok(if answer.found.is_empty() { ExitCode::from(NOT_HELD) } else { code })
}

/// Finds how many devices the adapters of a system can drive at full speed (`iodyno size --saturate`).
fn saturated(
    flags: &Size,
    host: &str,
    mut choice: Choice,
    style: Style,
) -> Result<ExitCode, Failure> {
    choice.hosts = vec![host.to_owned()];
    if choice.levels.is_empty() {
        choice.levels = vec![Level::Raid5];
    }
    let all = candidates(&choice)?;
    let [of] = all.as_slice() else {
        return Err(Failure::input(
            "--saturate requires exactly one device and one RAID level: give one --device and one --raid",
        ));
    };
    if of.adapters.is_none() {
        return Err(Failure::input(format!(
            "`{host}` has no RAID adapters that could limit the devices: name a system with adapters, such as 57ce-gen3"
        )));
    }
    let found = saturate::saturate(of, &signals::stop_flag())?;
    if flags.json {
        return print_json(&saturate::document(of, &found));
    }
    print(&saturate::show(of, &found, style))
}

fn of_word(level: &str) -> Option<Level> {
    Some(match level {
        "0" => Level::Raid0,
        "5" => Level::Raid5,
        "6" => Level::Raid6,
        "10" => Level::Raid10,
        _ => return None,
    })
}

/// Limits on response times from the flags, except the limit of --p99.
fn limits(flags: &Size) -> Vec<Limit> {
    let all = [
        (None, Tail::P999, flags.p999),
        (Some(OpKind::Read), Tail::P99, flags.read_p99),
        (Some(OpKind::Read), Tail::P999, flags.read_p999),
        (Some(OpKind::Write), Tail::P99, flags.write_p99),
        (Some(OpKind::Write), Tail::P999, flags.write_p999),
    ];
    all.into_iter().filter_map(|(of, tail, ns)| Some(Limit { of, tail, ns: ns? })).collect()
}

fn loss(word: &str) -> Option<Loss> {
    Some(match word {
        "device" => Loss::Device,
        "adapter" => Loss::Adapter,
        "link" => Loss::Link,
        _ => return None,
    })
}

fn demand(flags: &Size, notebook: Option<&Path>) -> Result<Demand, Failure> {
    if let Some(messages_per_s) = flags.log_rate {
        let share = flags.read_share.unwrap_or(0.0);
        // `share` is relative to reads and writes together.
        let replayed_per_s = flags.replay_rate.unwrap_or(messages_per_s * share / (1.0 - share));
        let room = flags.backlog.map(|messages| messages.saturating_mul(flags.message));
        let log = LogDemand {
            messages_per_s,
            message_bytes: flags.message,
            chunk_bytes: flags.chunk,
            replayed_per_s,
            room_bytes: flags.backlog_bytes.or(room).unwrap_or(0),
        };
        let p99_ns = flags.p99.unwrap_or(1);
        return Demand::of_log(log, p99_ns).map_err(Failure::input);
    }
    if let Some(run) = &flags.like {
        return like::demand(run, flags, notebook);
    }
    let given = flags.workload.as_deref().unwrap_or_default();
    let (_, spec) = NamedWork::read(given, &[], &Process)?.into_workload()?;
    // As given: the printed commands name the workload, and a file may have the name of a workload of the catalog.
    Ok(Demand::new(given.to_owned(), spec, flags.rate.unwrap_or(1.0), flags.p99.unwrap_or(1)))
}

fn prices<T>(
    path: &Path,
    read: impl FnOnce(&str) -> Result<T, Vec<FileError>>,
) -> Result<T, Failure> {
    let name = path.display().to_string();
    let text = read_text(path, MAX_FILE_BYTES).map_err(|e| {
        Failure::input(format!(
            "{name}: {e}: give --price the path of a TOML file, such as a copy of the catalog's example (`iodyno catalog cloud-2026-11 > prices.toml`)"
        ))
    })?;
    let file = File::at_path(Kind::Device, &name, text.as_str());
    Ok(read(&text).map_err(|errors| Problem::of(&file, &errors))?)
}
