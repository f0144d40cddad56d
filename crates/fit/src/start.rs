//! Start values of the parameters, computed by closed forms from the cells with extreme loads. A parameter that may
//! limit a rate starts 3 % above the largest measured rate, so that the refinement sees the parameter's effect. If the
//! parameter limits nothing in the measured device, the refinement may stay at a local minimum near this start. For
//! this case, there is a second list of start values. It takes values from the device that the fit starts from: for an
//! SSD, the controller times that are shorter than those of the first list; for a volume, the latencies that are
//! shorter, with limits that bind.

use crate::parameter::Parameter;
use crate::{Figure, Measured, are_printed};
use iodyno_emulate::spec::{Device, Kind};
use iodyno_units::OpKind;

/// Start value of a parameter that may limit a rate, as a multiple of the largest measured rate.
const ABOVE: f64 = 1.03;
/// Controller times of an SSD that a second start takes from the start device.
const COMMANDS: [&str; 2] = ["controller.read_command", "controller.write_command"];
/// Latencies of a volume that a second start takes from the start device.
const LATENCIES: [&str; 3] = ["volume.read", "volume.write", "volume.flush"];

/// Extremes of rate, throughput and latency over all measured cells.
#[derive(Debug, Default)]
struct Extremes {
    /// Largest read and write rates, operations a second.
    iops: [f64; 2],
    /// Largest rate of all operations together, operations a second.
    all_iops: f64,
    /// Largest read and write throughput, bytes a second.
    bytes_per_s: [f64; 2],
    /// Largest throughput of all operations together, bytes a second.
    all_bytes_per_s: f64,
    /// Smallest mean latencies of reads, writes and flushes, ns; `None` for a kind that was not measured.
    latency_ns: [Option<f64>; 3],
}

impl Extremes {
    fn of(cells: &[Measured]) -> Self {
        let mut all = Self::default();
        for Measured { observed, .. } in cells {
            let means = observed.statistics.iter().filter(|of| of.figure == Figure::Mean);
            for (kind, mean_ns) in means.map(|of| (of.kind, of.value_ns)) {
                let index = match kind {
                    OpKind::Read => 0,
                    OpKind::Write => 1,
                    OpKind::Flush => 2,
                    _ => continue,
                };
                let least = &mut all.latency_ns[index];
                *least = Some(least.map_or(mean_ns, |least: f64| least.min(mean_ns)));
            }
            let [read, write] = observed.rates;
            for (index, (ops, bytes)) in [read, write].into_iter().enumerate() {
                all.iops[index] = all.iops[index].max(ops);
                all.bytes_per_s[index] = all.bytes_per_s[index].max(bytes);
            }
            all.all_iops = all.all_iops.max(read.0 + write.0);
            all.all_bytes_per_s = all.all_bytes_per_s.max(read.1 + write.1);
        }
        all
    }
}

/// Returns one or two lists of start values. The first is [`values`]. The second takes `device`'s own values where they
/// are shorter: for an SSD, of the controller times; for a volume with limits, of the latencies, and each of its limits
/// starts at the largest measured rate, so that it binds. For printed figures, only the first list is returned.
pub(crate) fn candidates(
    parameters: &[Parameter],
    device: &Device,
    cells: &[Measured],
) -> Vec<Vec<f64>> {
    let first = values(parameters, device, cells);
    if are_printed(cells) {
        return vec![first];
    }
    let other =
        parameters.iter().zip(&first).map(|(parameter, first)| match parameter.of(device) {
            Some(own) if COMMANDS.contains(&parameter.key) => own.min(*first),
            Some(own) if LATENCIES.contains(&parameter.key) && !device.limits.is_empty() => {
                own.min(*first)
            }
            _ if parameter.is_limit() => first / ABOVE,
            _ => *first,
        });
    let second: Vec<f64> = other.collect();
    if second == first { vec![first] } else { vec![first, second] }
}

/// Bytes that all dies of an SSD program at once, and the mean program time as a multiple of that of fast pages; `None` for
/// other devices.
fn programmed(device: &Device) -> Option<(f64, f64)> {
    let Kind::Flash(flash) = &device.kind else { return None };
    let nand = &flash.nand;
    let dies = f64::from(nand.channels * nand.dies_per_channel * nand.planes);
    let mean_ns = (nand.program_fast_ns + nand.program_slow_ns) as f64 / 2.0;
    Some((dies * f64::from(nand.page_bytes), mean_ns / nand.program_fast_ns as f64))
}

/// Start values of the parameters: from the measured cells by a closed form; without one, the value in `device`.
/// Printed figures are too few for closed forms.
pub(crate) fn values(parameters: &[Parameter], device: &Device, cells: &[Measured]) -> Vec<f64> {
    let cells = if are_printed(cells) { &[] } else { cells };
    let extremes = Extremes::of(cells);
    let is_of_writes = |parameter: &Parameter| parameter.key == "io_thread.write_command";
    let above = |rate: f64| (rate > 0.0).then_some(rate * ABOVE);
    let start = |parameter: &Parameter| {
        let known = match parameter.key {
            "volume.read" => extremes.latency_ns[0],
            "volume.write" => extremes.latency_ns[1],
            "volume.flush" => extremes.latency_ns[2],
            "volume.network" => above(extremes.all_bytes_per_s).map(|rate| rate * 2.0),
            "throughput_limit.rate" => above(extremes.all_bytes_per_s),
            "iops_limit.rate" => above(extremes.all_iops),
            "link.read" | "memory.read" | "platters.outer" | "io_thread.read_copy" => {
                above(extremes.bytes_per_s[0])
            }
            "link.write" | "memory.write" | "io_thread.write_copy" => {
                above(extremes.bytes_per_s[1])
            }
            "nand.program_fast" => above(extremes.bytes_per_s[1])
                .zip(programmed(device))
                .map(|(rate, (at_once, share))| at_once / rate * 1e9 / share),
            "io_thread.command" if !parameters.iter().any(is_of_writes) => {
                above(extremes.all_iops).map(|rate| 1e9 / rate)
            }
            "controller.read_command" | "io_thread.command" => {
                above(extremes.iops[0]).map(|rate| 1e9 / rate)
            }
            "controller.write_command" | "io_thread.write_command" => {
                above(extremes.iops[1]).map(|rate| 1e9 / rate)
            }
            _ => None,
        };
        let value = known.or_else(|| parameter.of(device)).unwrap_or(parameter.bounds.0);
        value.clamp(parameter.bounds.0, parameter.bounds.1)
    };
    parameters.iter().map(start).collect()
}
