//! From what is written to what it means: fills in defaults, refuses keys that mean nothing where
//! they stand, and then asks the rules. All errors are found in one go.

use std::collections::BTreeMap;

use core::ops::Range;

use iodyno_units::OpKind;
use serde_spanned::Spanned;

use crate::error::SpecError;
use crate::raw::{
    ArrivalsName, ContentName, Given, PatternName, ProcessName, RawAddress, RawAddresses,
    RawArrivals, RawBlocks, RawContent, RawLimits, RawMix, RawSpec,
};
use crate::rules::{self, Fault};
use crate::spec::{
    ActiveRange, Address, ArrivalKind, Block, Content, Limits, Pattern, Percent, Process, Scope,
    Spec, Spot, Table, saturated,
};

/// The version of the file's form that this program writes, and the newest that it reads.
pub const SCHEMA: u64 = 1;

/// How many addresses a `recently-…` pattern remembers where the file does not say.
const DEFAULT_WINDOW: u64 = 4096;

impl Spec {
    /// What the file of one workload means.
    ///
    /// # Errors
    /// Everything that is wrong with it; also that it is a group.
    pub fn from_raw(raw: RawSpec) -> Result<Self, Vec<SpecError>> {
        let mut reader = Reader::default();
        reader.schema(raw.schema.as_ref());
        if let Some(group) = &raw.group {
            reader.refuse(group.span(), "this is a group, not one workload", None);
            return Err(reader.errors);
        }
        let spec = reader.spec(raw);
        for fault in rules::check(&spec) {
            reader.fault(fault);
        }
        if reader.errors.is_empty() {
            return Ok(spec);
        }
        reader.errors.sort_by_key(|error| error.span.start);
        Err(reader.errors)
    }
}

/// Where a key stands, if it is given.
fn span<T>(given: Option<&Spanned<T>>) -> Option<Range<usize>> {
    given.map(Spanned::span)
}

/// Collects errors, and where each key stands under the name that the rules have for it.
#[derive(Default)]
pub(crate) struct Reader {
    pub(crate) errors: Vec<SpecError>,
    spans: BTreeMap<String, Range<usize>>,
}

impl Reader {
    pub(crate) fn schema(&mut self, schema: Option<&Spanned<crate::raw::Count>>) {
        let write = format!("write `schema = {SCHEMA}`");
        let Some(schema) = schema else {
            self.refuse(0..0, "the key `schema` is missing", Some(write));
            return;
        };
        let found = schema.get_ref().0;
        if found != SCHEMA {
            let message =
                format!("this file is of schema {found}; this program reads schema {SCHEMA}");
            let help = if found > SCHEMA { "use a newer iodyno".to_owned() } else { write };
            self.refuse(schema.span(), message, Some(help));
        }
    }

    pub(crate) fn refuse(
        &mut self,
        span: Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) {
        self.errors.push(SpecError { span, message: message.into(), help });
    }

    /// A fault stands where its key does, or else where the nearest table or array around it does.
    fn fault(&mut self, fault: Fault) {
        let mut key = fault.key.as_str();
        let span = loop {
            if let Some(span) = self.spans.get(key) {
                break span.clone();
            }
            match key.rfind(['.', '[']) {
                Some(cut) => key = &key[..cut],
                None => break 0..0,
            }
        };
        self.refuse(span, fault.message, fault.help);
    }

    /// Notes where `key` stands, and takes its value.
    fn take<T>(&mut self, key: &str, given: Given<T>) -> Option<T> {
        let given = given?;
        self.spans.insert(key.to_owned(), given.span());
        Some(given.into_inner())
    }

    /// A key that means nothing here.
    fn unwanted(&mut self, span: Option<Range<usize>>, key: &str, of: &str, belongs: &str) {
        if let Some(span) = span {
            self.refuse(
                span,
                format!("`{key}` means nothing for {of}"),
                Some(format!("{belongs}; leave the key out")),
            );
        }
    }

    fn spec(&mut self, raw: RawSpec) -> Spec {
        let mut tables: [Table; Scope::COUNT] = Default::default();
        if let Some(all) = self.take("all", raw.all) {
            tables[Scope::All as usize].addresses = self.addresses(Scope::All, all.addresses);
        }
        if tables[Scope::All as usize].addresses.is_empty() {
            let pattern = Pattern::Uniform { once_per_pass: false };
            tables[Scope::All as usize].addresses = vec![Address { pattern, share: 1.0 }];
        }
        tables[Scope::All as usize].given = true;
        for (scope, kind) in [
            (Scope::Read, raw.read),
            (Scope::Trim, raw.trim),
            (Scope::WriteZeroes, raw.write_zeroes),
        ] {
            if let Some(kind) = self.take(scope.key(), kind) {
                let block = self.blocks(&format!("{}.block", scope.key()), kind.block);
                let addresses = self.addresses(scope, kind.addresses);
                tables[scope as usize] = Table { given: true, block, addresses };
            }
        }
        let (mut fua, mut flush_every) = (None, None);
        if let Some(write) = self.take("write", raw.write) {
            let block = self.blocks("write.block", write.block);
            let addresses = self.addresses(Scope::Write, write.addresses);
            tables[Scope::Write as usize] = Table { given: true, block, addresses };
            fua = self.take("write.fua", write.fua);
            flush_every = self.take("write.flush_every", write.flush_every);
        }
        let mut block = self.blocks("block", raw.block);
        if block.is_empty() {
            block = vec![Block { bytes: 4096, share: 1.0 }];
        }
        Spec {
            about: self.take("about", raw.about).unwrap_or_default(),
            source: self.take("source", raw.source),
            threads: saturated(self.take("threads", raw.threads).map_or(1, |count| count.0)),
            depth: saturated(self.take("depth", raw.depth).map_or(1, |count| count.0)),
            block,
            align_bytes: self.take("align", raw.align).map(|size| saturated(size.0)),
            active: self.take("active", raw.active).unwrap_or(ActiveRange::WHOLE),
            mix: self.mix(raw.mix),
            tables,
            fua: fua.unwrap_or_default(),
            flush_every: flush_every.map_or(0, |count| saturated(count.0)),
            arrivals: self.arrivals(raw.arrivals),
            content: self.content(raw.content),
            limits: self.limits(raw.limits),
        }
    }

    fn blocks(&mut self, key: &str, given: Given<RawBlocks>) -> Vec<Block> {
        let Some(given) = given else { return Vec::new() };
        self.spans.insert(key.to_owned(), given.span());
        match given.into_inner() {
            RawBlocks::One(size) => vec![Block { bytes: saturated(size.0), share: 1.0 }],
            RawBlocks::Many(list) if list.is_empty() => {
                self.refuse(
                    self.spans[key].clone(),
                    "no block size is given",
                    Some("write a size such as `\"4KiB\"`".to_owned()),
                );
                Vec::new()
            }
            RawBlocks::Many(list) => {
                let items = list.into_iter().enumerate();
                let read = items.map(|(i, item)| {
                    self.spans.insert(format!("{key}[{i}].size"), item.size.span());
                    self.spans.insert(format!("{key}[{i}].share"), item.share.span());
                    Block { bytes: saturated(item.size.get_ref().0), share: item.share.get_ref().0 }
                });
                read.collect()
            }
        }
    }

    /// Shares by kind. A share of 0 that is written is not the same as none: the rules have no
    /// place for it, so it is refused here.
    fn mix(&mut self, given: Given<RawMix>) -> [f64; OpKind::COUNT] {
        let mut shares = [0.0; OpKind::COUNT];
        let Some(mix) = self.take("mix", given) else { return shares };
        for (kind, share) in [
            (OpKind::Read, mix.read),
            (OpKind::Write, mix.write),
            (OpKind::Flush, mix.flush),
            (OpKind::Trim, mix.trim),
            (OpKind::WriteZeroes, mix.write_zeroes),
        ] {
            let key = format!("mix.{}", kind.name());
            let Some(share) = self.take(&key, share) else { continue };
            if share.0 == 0.0 {
                self.refuse(
                    self.spans[&key].clone(),
                    "a share of 0 issues nothing",
                    Some(format!("leave `{}` out of the mix", kind.name())),
                );
            }
            shares[kind.index()] = share.0;
        }
        shares
    }

    fn addresses(&mut self, scope: Scope, given: Given<RawAddresses>) -> Vec<Address> {
        let Some(given) = given else { return Vec::new() };
        let key = format!("{}.addresses", scope.key());
        self.spans.insert(key.clone(), given.span());
        match given.into_inner() {
            RawAddresses::Name(name) => {
                self.spans.insert(format!("{key}[0]"), self.spans[&key].clone());
                let pattern = Spanned::new(self.spans[&key].clone(), name);
                vec![self.address(&format!("{key}[0]"), RawAddress::of(pattern))]
            }
            RawAddresses::One(address) => {
                self.spans.insert(format!("{key}[0]"), self.spans[&key].clone());
                vec![self.address(&format!("{key}[0]"), *address)]
            }
            RawAddresses::Many(list) if list.is_empty() => {
                self.refuse(
                    self.spans[&key].clone(),
                    "no pattern of addresses is given",
                    Some("write one such as `\"uniform\"`, or leave the key out".to_owned()),
                );
                Vec::new()
            }
            RawAddresses::Many(list) => {
                let several = list.len() > 1;
                let items = list.into_iter().enumerate();
                let read = items.map(|(i, item)| {
                    let key = format!("{key}[{i}]");
                    self.spans.insert(key.clone(), item.span());
                    if several && item.get_ref().share.is_none() {
                        self.refuse(
                            item.span(),
                            "this pattern has no `share`",
                            Some("each of several patterns needs one".to_owned()),
                        );
                    }
                    self.address(&key, item.into_inner())
                });
                read.collect()
            }
        }
    }

    fn address(&mut self, key: &str, raw: RawAddress) -> Address {
        let name = *raw.pattern.get_ref();
        self.spans.insert(format!("{key}.pattern"), raw.pattern.span());
        let of = format!("the pattern `{}`", name.name());
        if name != PatternName::Uniform {
            self.unwanted(
                span(raw.once_per_pass.as_ref()),
                "once_per_pass",
                &of,
                "it belongs to `uniform`",
            );
        }
        if name != PatternName::Sequential {
            self.unwanted(span(raw.shared.as_ref()), "shared", &of, "it belongs to `sequential`");
            self.unwanted(span(raw.run.as_ref()), "run", &of, "it belongs to `sequential`");
        }
        if name != PatternName::Zipf {
            self.unwanted(span(raw.theta.as_ref()), "theta", &of, "it belongs to `zipf`");
        }
        if name != PatternName::HotSpots {
            self.unwanted(span(raw.spots.as_ref()), "spots", &of, "it belongs to `hot-spots`");
            self.unwanted(span(raw.scatter.as_ref()), "scatter", &of, "it belongs to `hot-spots`");
        }
        if !matches!(name, PatternName::RecentlyRead | PatternName::RecentlyWritten) {
            let belongs = "it belongs to `recently-read` and `recently-written`";
            self.unwanted(span(raw.window.as_ref()), "window", &of, belongs);
        }
        if name != PatternName::Strided {
            self.unwanted(span(raw.stride.as_ref()), "stride", &of, "it belongs to `strided`");
            self.unwanted(span(raw.start.as_ref()), "start", &of, "it belongs to `strided`");
        }
        let share = self.take(&format!("{key}.share"), raw.share).map_or(1.0, |share| share.0);
        let at = raw.pattern.span();
        let window = self.take(&format!("{key}.window"), raw.window);
        let window = saturated(window.map_or(DEFAULT_WINDOW, |count| count.0));
        let pattern = match name {
            PatternName::Uniform => {
                let key = format!("{key}.once_per_pass");
                Pattern::Uniform { once_per_pass: self.take(&key, raw.once_per_pass) == Some(true) }
            }
            PatternName::Sequential => Pattern::Sequential {
                shared: self.take(&format!("{key}.shared"), raw.shared) == Some(true),
                run: self.take(&format!("{key}.run"), raw.run).map(|count| count.0),
            },
            PatternName::Zipf => {
                self.needs(raw.theta.is_some(), &at, "theta", "`theta = 0.9` is a common exponent");
                let theta = self.take(&format!("{key}.theta"), raw.theta);
                Pattern::Zipf { theta: theta.map_or(1.0, |number| number.0) }
            }
            PatternName::HotSpots => {
                let example = "such as `spots = [{ share = 80, range = \"20%\" }, { share = 20, \
                               range = \"80%\" }]`";
                self.needs(raw.spots.is_some(), &at, "spots", example);
                let scatter = self.take(&format!("{key}.scatter"), raw.scatter) == Some(true);
                let given = raw.spots.is_some();
                let raw_spots = self.take(&format!("{key}.spots"), raw.spots).unwrap_or_default();
                let mut spots = Vec::with_capacity(raw_spots.len());
                for (i, spot) in raw_spots.into_iter().enumerate() {
                    self.spans.insert(format!("{key}.spots[{i}].share"), spot.share.span());
                    self.spans.insert(format!("{key}.spots[{i}].range"), spot.range.span());
                    let share = spot.share.get_ref().0;
                    spots.push(Spot { share, range: spot.range.into_inner() });
                }
                if !given {
                    // It has been said already that they are missing.
                    spots.push(Spot { share: 1.0, range: Percent::ALL });
                }
                Pattern::HotSpots { spots, scatter }
            }
            PatternName::RecentlyRead => Pattern::RecentlyRead { window },
            PatternName::RecentlyWritten => Pattern::RecentlyWritten { window },
            PatternName::Strided => {
                self.needs(raw.stride.is_some(), &at, "stride", "such as `stride = \"64KiB\"`");
                let stride = self.take(&format!("{key}.stride"), raw.stride);
                let start = self.take(&format!("{key}.start"), raw.start);
                Pattern::Strided {
                    // A stride that is missing has been refused; this one passes every rule.
                    stride_bytes: stride.map_or(1 << 30, |size| size.0),
                    start_bytes: start.map_or(0, |size| size.0),
                }
            }
        };
        Address { pattern, share }
    }

    /// A key without which `at` says too little.
    fn needs(&mut self, is_given: bool, at: &Range<usize>, key: &str, example: &str) {
        if !is_given {
            let message = format!("the key `{key}` is missing");
            self.refuse(at.clone(), message, Some(example.to_owned()));
        }
    }

    fn arrivals(&mut self, given: Given<RawArrivals>) -> ArrivalKind {
        let closed = ArrivalKind::Closed { think_time_ns: 0, think_drains: false };
        let Some(raw) = self.take("arrivals", given) else { return closed };
        self.spans.insert("arrivals.kind".to_owned(), raw.kind.span());
        match raw.kind.get_ref() {
            ArrivalsName::Closed => {
                let of = "a closed loop";
                let belongs = "a rate belongs to `kind = \"open\"`";
                self.unwanted(span(raw.rate.as_ref()), "rate", of, belongs);
                self.unwanted(span(raw.process.as_ref()), "process", of, belongs);
                let think = self.take("arrivals.think_time", raw.think_time);
                let think_time_ns = think.map_or(0, |duration| duration.0);
                let drains = self.take("arrivals.think_drains", raw.think_drains);
                ArrivalKind::Closed { think_time_ns, think_drains: drains == Some(true) }
            }
            ArrivalsName::Open => {
                let of = "an open loop";
                let belongs = "think time belongs to `kind = \"closed\"`: an open loop does not \
                               wait for completions";
                self.unwanted(span(raw.think_time.as_ref()), "think_time", of, belongs);
                self.unwanted(span(raw.think_drains.as_ref()), "think_drains", of, belongs);
                self.needs(
                    raw.rate.is_some(),
                    &raw.kind.span(),
                    "rate",
                    "such as `rate = \"50k/s\"`",
                );
                let rate = self.take("arrivals.rate", raw.rate);
                let process = match self.take("arrivals.process", raw.process) {
                    Some(ProcessName::Constant) => Process::Constant,
                    Some(ProcessName::Poisson) | None => Process::Poisson,
                };
                ArrivalKind::Open { rate_iops: rate.map_or(1.0, |rate| rate.0), process }
            }
        }
    }

    fn content(&mut self, given: Given<RawContent>) -> Content {
        let Some(raw) = self.take("content", given) else { return Content::Incompressible };
        self.spans.insert("content.kind".to_owned(), raw.kind.span());
        let name = *raw.kind.get_ref();
        if name != ContentName::Compressible {
            let of = format!("content of the kind `{}`", name.name());
            let belongs = "it belongs to `compressible`";
            self.unwanted(span(raw.compressible.as_ref()), "compressible", &of, belongs);
            self.unwanted(span(raw.dedupable.as_ref()), "dedupable", &of, belongs);
        }
        match name {
            ContentName::Incompressible => Content::Incompressible,
            ContentName::Verifiable => Content::Verifiable,
            ContentName::Zeroes => Content::Zeroes,
            ContentName::Compressible => Content::Compressible {
                compressible: self
                    .take("content.compressible", raw.compressible)
                    .unwrap_or_default(),
                dedupable: self.take("content.dedupable", raw.dedupable).unwrap_or_default(),
            },
        }
    }

    fn limits(&mut self, given: Given<RawLimits>) -> Limits {
        let mut limits =
            Limits { time_ns: None, ops: None, bytes: None, ramp_ns: Limits::DEFAULT_RAMP_NS };
        if let Some(raw) = self.take("limits", given) {
            limits.time_ns = self.take("limits.time", raw.time).map(|duration| duration.0);
            limits.ops = self.take("limits.ops", raw.ops).map(|count| count.0);
            limits.bytes = self.take("limits.bytes", raw.bytes).map(|size| size.0);
            if let Some(ramp) = self.take("limits.ramp", raw.ramp) {
                limits.ramp_ns = ramp.0;
            }
        }
        if (limits.time_ns, limits.ops, limits.bytes) == (None, None, None) {
            limits.time_ns = Some(Limits::DEFAULT_TIME_NS);
        }
        limits
    }
}
