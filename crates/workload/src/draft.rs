//! [`Draft`] builds a specification from typed values, for readers of other tools' formats.

use crate::from_file::with_defaults;
use crate::rules;
use crate::spec::{
    ActiveRange, Address, ArrivalKind, Block, Content, FlushBursts, Limits, MixOrder, NewFile,
    Pattern, Percent, Scope, Spec, saturated,
};
use iodyno_catalog::Fault;
use iodyno_units::OpKind;

/// A workload under construction: the keys of a workload file as typed values. Unset keys have their default.
/// A number too large for its type becomes the maximum, which [`check`](Self::check) rejects.
#[derive(Clone, Debug)]
pub struct Draft(Spec);

/// Normalises a list of block sizes as reading a file does: the share of a single size becomes 1.
fn of_file(mut blocks: Vec<Block>) -> Vec<Block> {
    if let [one] = blocks.as_mut_slice() {
        one.share = 1.0;
    }
    blocks
}

fn saturated_option(number: Option<u64>) -> Option<u32> {
    number.map(saturated)
}

/// Defines a setter for each key. `by function` converts the value to the field's type. `in Table` also marks that
/// table as present in the file.
macro_rules! setters {
    ($($key:literal $name:ident($type:ty) => $($field:ident).+ $(by $fit:ident)? $(in $scope:ident)?;)*) => {
        impl Draft {$(
            #[doc = concat!("Sets `", $key, "`.")]
            pub fn $name(&mut self, value: $type) {
                $(let value = $fit(value);)?
                self.0.$($field).+ = value;
                $(self.0.tables[Scope::$scope as usize].given = true;)?
            }
        )*}
    };
}

setters! {
    "threads" threads(u64) => threads by saturated;
    "depth" depth(u64) => depth by saturated;
    "submit_batch" submit_batch(Option<u64>) => submit_batch by saturated_option;
    "block" blocks(Vec<Block>) => block by of_file;
    "align" align(Option<u64>) => align_bytes by saturated_option;
    "address_align" address_align(Option<u64>) => address_align_bytes by saturated_option;
    "active" active(ActiveRange) => active;
    "new_file" new_file(NewFile) => new_file;
    "mix_order" mix_order(MixOrder) => mix_order;
    "worker_step" worker_step(Option<u64>) => worker_step_bytes;
    "write.fua" fua(Percent) => fua in Write;
    "write.flush_every" flush_every(u64) => flush_every by saturated in Write;
    "write.flush_at_end" flush_at_end(u64) => flush_at_end by saturated in Write;
    "write.flush_again" flush_again(bool) => flush_again in Write;
    "write.flush_waits" flush_waits(bool) => flush_waits in Write;
    "write.read_back" read_back(u64) => read_back by saturated in Write;
    "arrivals.kind" arrivals(ArrivalKind) => arrivals;
    "arrivals.think_time" open_pause(u64) => batches.pause_ns;
    "arrivals.think_shifts" think_shifts(bool) => batches.think_shifts;
    "arrivals.think_after" think_after(Option<u64>) => batches.think_after by saturated_option;
    "arrivals.think_after_time" think_after_ns(Option<u64>) => batches.think_after_ns;
    "arrivals.refill_at" refill_at(Option<u64>) => batches.refill_at by saturated_option;
    "arrivals.flow" flow(Option<u64>) => batches.flow by saturated_option;
    "content" content(Content) => content;
    "limits" limits(Limits) => limits;
}

impl Draft {
    /// Creates a draft with a one-line description and the defaults of all other keys. Its mix is empty, and must
    /// be set.
    pub fn new(about: String) -> Self {
        Self(Spec { about, ..Spec::blank() })
    }

    /// Sets the share of one kind of operation in the mix; above 0.
    pub fn mix(&mut self, kind: OpKind, share: f64) {
        self.0.mix[kind.index()] = share;
    }

    /// Sets the block sizes of one kind of operation, which otherwise has those of the whole workload. Ignored for
    /// flushes.
    pub fn blocks_of(&mut self, kind: OpKind, blocks: Vec<Block>) {
        if let Some(scope) = Scope::of(kind) {
            self.0.tables[scope as usize].block = of_file(blocks);
            self.0.tables[scope as usize].given = true;
        }
    }

    /// Sets the address pattern of all kinds of operations.
    pub fn addresses(&mut self, pattern: Pattern) {
        self.set_addresses(Scope::All, pattern);
    }

    /// Sets the address pattern of one kind of operation, in place of the pattern of all kinds. Ignored for flushes.
    pub fn addresses_of(&mut self, kind: OpKind, pattern: Pattern) {
        if let Some(scope) = Scope::of(kind) {
            self.set_addresses(scope, pattern);
        }
    }

    fn set_addresses(&mut self, scope: Scope, pattern: Pattern) {
        let table = &mut self.0.tables[scope as usize];
        table.addresses = vec![Address { pattern, share: 1.0 }];
        table.given = true;
    }

    /// Sets the table `[flush]`: `burst` flushes after every `every` operations.
    pub fn flush_bursts(&mut self, every: u64, burst: u64) {
        let (every, burst) = (saturated(every), saturated(burst));
        self.0.flush_bursts = Some(FlushBursts { every, burst });
    }

    /// Checks the draft against the rules of workload files, and converts it into a specification.
    ///
    /// # Errors
    /// All broken rules, each with its key.
    pub fn check(self) -> Result<Spec, Vec<Fault>> {
        let spec = with_defaults(self.0);
        let faults = rules::check(&spec);
        if faults.is_empty() { Ok(spec) } else { Err(faults) }
    }
}
