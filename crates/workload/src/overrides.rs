//! Command-line flags that change a specification. Each change must satisfy the rules for workload files. Errors are
//! sentences for the user who gave the flag.

use crate::flags::OfferedRate;
use crate::rules;
use crate::spec::{
    ActiveRange, Address, ArrivalKind, Batches, Block, Content, Limits, MixOrder, NewFile, Pattern,
    Percent, Process, Scope, Spec, Table,
};
use iodyno_units::OpKind;

/// Defines functions that each override one field of the specification.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident($value:ident: $of:ty) $($field:ident).+ = $new:expr;)*) => {
        impl Spec {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The rule that the changed specification would break.
            pub fn $name(mut self, $value: $of) -> Result<Self, String> {
                self.$($field).+ = $new;
                self.checked()
            }
        )*}
    };
}

setters! {
    /// Sets the number of worker threads per target.
    with_threads(threads: u32) threads = threads;
    /// Sets the number of outstanding operations per worker.
    with_depth(depth: u32) depth = depth;
    /// Sets the active range: the part of the target to which operations go.
    with_active(active: ActiveRange) active = active;
    /// Sets the initial state of a file that the run creates.
    with_new_file(new_file: NewFile) new_file = new_file;
    /// Sets what writes store: random, compressible, verifiable or zero bytes.
    with_content(content: Content) content = content;
    /// Sets the duration of the measurement, ns; does not change other limits.
    with_time(time_ns: u64) limits.time_ns = Some(time_ns);
    /// Sets the number of operations after which the workload ends; does not change other limits.
    with_ops(ops: u64) limits.ops = Some(ops);
    /// Sets the ramp (warm-up before the measurement), ns.
    with_ramp(ramp_ns: u64) limits.ramp_ns = ramp_ns;
}

impl Spec {
    /// Sets the number of measured bytes after which the workload ends; does not change other limits.
    ///
    /// # Errors
    /// The rule that the changed specification would break.
    pub fn with_bytes(mut self, bytes: u64) -> Result<Self, String> {
        self.limits.bytes = Some(bytes);
        self.limits.ramp_counts = false;
        self.checked()
    }

    /// Sets the same block sizes for all kinds of operations.
    ///
    /// # Errors
    /// The changed specification would break a rule, which the message states, or a size is not a multiple of an
    /// explicit alignment.
    pub fn with_block(mut self, block: Vec<Block>) -> Result<Self, String> {
        if block.is_empty() {
            return Err("no block size is given".to_owned());
        }
        for table in &mut self.tables {
            table.block.clear();
        }
        self.block = block;
        self.checked()
    }

    /// Sets the share of reads; all other operations become writes. Keeps block sizes and addresses of the kinds
    /// that remain.
    ///
    /// # Errors
    /// The rule that the changed specification would break.
    pub fn with_read_share(mut self, share: Percent) -> Result<Self, String> {
        let reads = share.fraction();
        self.mix = [0.0; OpKind::COUNT];
        self.mix[OpKind::Read.index()] = reads;
        self.mix[OpKind::Write.index()] = 1.0 - reads;
        self.forget_unissued();
        self.checked()
    }

    /// Removes the settings of operation kinds that are not in the mix.
    fn forget_unissued(&mut self) {
        for scope in [Scope::Read, Scope::Write, Scope::Trim, Scope::WriteZeroes] {
            let issued = scope.kind().is_some_and(|kind| self.mix[kind.index()] > 0.0);
            if !issued {
                self.tables[scope as usize] = Table::default();
            }
        }
        if self.mix[OpKind::Write.index()] == 0.0 {
            self.fua = Percent::ZERO;
            (self.flush_every, self.flush_at_end) = (0, 0);
            (self.flush_again, self.flush_waits) = (false, false);
            self.read_back = 0;
            self.new_file = NewFile::Written;
            self.flush_bursts = None;
        }
        if self.mix[OpKind::Read.index()] == 0.0 || self.mix[OpKind::Write.index()] == 0.0 {
            self.mix_order = MixOrder::Drawn;
        }
    }

    /// Sets one address pattern, with one cursor, for all kinds of operations.
    ///
    /// # Errors
    /// The rule that the changed specification would break.
    pub fn with_pattern(mut self, pattern: Pattern) -> Result<Self, String> {
        for table in &mut self.tables {
            table.addresses.clear();
        }
        self.tables[Scope::All as usize].addresses = vec![Address { pattern, share: 1.0 }];
        self.checked()
    }

    /// Makes each worker flush after every `writes` writes, in addition to the operations of the mix. Replaces
    /// bursts of flushes.
    ///
    /// # Errors
    /// The changed specification would break a rule, which the message states, or the workload has no writes.
    pub fn with_flush_every(mut self, writes: u32) -> Result<Self, String> {
        self.flush_every = writes;
        self.flush_again &= writes > 0;
        self.flush_waits &= writes > 0;
        self.flush_bursts = None;
        self.checked_with_writes("a flush after writes")
    }

    /// Sets the share of writes with force unit access.
    ///
    /// # Errors
    /// The changed specification would break a rule, which the message states, or the workload has no writes.
    pub fn with_fua(mut self, share: Percent) -> Result<Self, String> {
        self.fua = share;
        self.checked_with_writes("durable writes")
    }

    fn checked_with_writes(mut self, what: &str) -> Result<Self, String> {
        self.tables[Scope::Write as usize].given = true;
        if self.mix[OpKind::Write.index()] == 0.0 {
            return Err(format!(
                "the workload has no writes, so {what} can't be issued: choose one that writes"
            ));
        }
        self.checked()
    }

    /// Makes the workload an open loop with the offered rate. Rates by kind of operation also replace the mix.
    ///
    /// # Errors
    /// The changed specification would break a rule, which the message states, or the workload has a think time.
    pub fn with_offered(
        mut self,
        rate: &OfferedRate,
        process: Option<Process>,
    ) -> Result<Self, String> {
        let rates = rate.rates_iops(&self)?;
        let all: f64 = rates.iter().map(|(_, rate)| rate).sum();
        if rate.is_by_kind() {
            self.mix = [0.0; OpKind::COUNT];
            for (kind, rate) in rates.iter().filter_map(|(kind, rate)| Some(((*kind)?, rate))) {
                self.mix[kind.index()] = rate / all;
            }
            self.forget_unissued();
        }
        self.with_rate(all, process)
    }

    /// Sets the think time, ns. Closed loop: the delay between the completion of an operation and the start
    /// of the next one. Open loop with pauses: the length of a pause.
    ///
    /// # Errors
    /// The changed specification would break a rule, which the message states, or the workload is an open loop
    /// without pauses.
    pub fn with_think_time(mut self, ns: u64) -> Result<Self, String> {
        match &mut self.arrivals {
            ArrivalKind::Closed { think_time_ns, .. } => *think_time_ns = ns,
            ArrivalKind::Open { .. } if self.batches.pause_ns > 0 => self.batches.pause_ns = ns,
            ArrivalKind::Open { .. } => {
                return Err(
                    "an open loop without pauses can't have a think time: its arrivals don't wait for completions"
                        .to_owned(),
                );
            }
        }
        self.checked()
    }

    /// Makes the workload an open loop with a rate in operations per second per target. If `process` is None, an
    /// open loop keeps its process and a closed loop becomes Poisson.
    ///
    /// # Errors
    /// The changed specification would break a rule, which the message states, or the workload has a think time.
    pub fn with_rate(mut self, rate_iops: f64, process: Option<Process>) -> Result<Self, String> {
        let before = match self.arrivals {
            ArrivalKind::Open { process, .. } => process,
            ArrivalKind::Closed { think_time_ns: 0, .. } => Process::Poisson,
            ArrivalKind::Closed { .. } => {
                return Err(
                    "this workload has a think time, which an open loop can't have; remove \
                            it from the file to give a rate"
                        .to_owned(),
                );
            }
        };
        self.arrivals = ArrivalKind::Open { rate_iops, process: process.unwrap_or(before) };
        self.checked()
    }

    /// Sets the lengths of the ramp and of the window, and removes all other limits.
    ///
    /// # Errors
    /// The rule that the workload then violates.
    pub fn with_time_alone(mut self, ramp_ns: u64, time_ns: u64) -> Result<Self, String> {
        self.limits = Limits { time_ns: Some(time_ns), ramp_ns, ..Limits::UNLIMITED };
        self.checked()
    }

    /// Removes the time limit, so that a limit of operations, bytes or passes ends the workload.
    ///
    /// # Errors
    /// The workload has no other limit.
    pub fn without_time(mut self) -> Result<Self, String> {
        let Limits { ops, bytes, passes, .. } = self.limits;
        if (ops, bytes, passes) == (None, None, None) {
            return Err(
                "a run without a time limit needs a limit of operations or bytes".to_owned()
            );
        }
        self.limits.time_ns = None;
        self.checked()
    }

    /// This workload in a closed loop without pauses, to measure how fast operations can be generated. The
    /// loop runs for `time_ns` after a ramp of a quarter of that time.
    #[must_use]
    pub fn for_calibration(&self, time_ns: u64) -> Self {
        let mut spec = self.clone();
        spec.arrivals = ArrivalKind::Closed { think_time_ns: 0, think_drains: false };
        spec.limits = Limits { time_ns: Some(time_ns), ramp_ns: time_ns / 4, ..Limits::UNLIMITED };
        spec.batches = Batches::default();
        spec.flush_at_end = 0;
        spec
    }

    pub(crate) fn checked(self) -> Result<Self, String> {
        match rules::check(&self).into_iter().next() {
            None => Ok(self),
            Some(fault) => Err(match fault.help {
                Some(help) => format!("{}; {help}", fault.message),
                None => fault.message,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of `--bytes` are measured bytes, also of a fio job, whose size includes the ramp.
    #[test]
    fn given_bytes_do_not_include_the_ramp() {
        let text = "schema = 1\nmix = { read = 1 }\n[limits]\nramp = \"1s\"\nbytes = \"1MiB\"\nramp_counts = true";
        let spec = Spec::from_toml(text).unwrap();
        assert!(spec.limits().ramp_counts);
        let spec = spec.with_bytes(4 << 20).unwrap();
        assert_eq!((spec.limits().bytes, spec.limits().ramp_counts), (Some(4 << 20), false));
    }
}
