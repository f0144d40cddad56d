//! What a workload file may be: one workload, or a group that names several to be run one after
//! the other.

use core::ops::Range;

use crate::error::SpecError;
use crate::from_raw::Reader;
use crate::raw::RawSpec;
use crate::spec::Spec;

/// The most members of a group.
const MAX_MEMBERS: usize = 64;

/// A workload file.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// One workload.
    Single(Box<Spec>),
    /// Several, by their names.
    Group(Group),
}

impl Workload {
    /// What a workload file means.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_raw(raw: RawSpec) -> Result<Self, Vec<SpecError>> {
        match raw.group {
            Some(_) => Group::from_raw(raw).map(Self::Group),
            None => Spec::from_raw(raw).map(|spec| Self::Single(Box::new(spec))),
        }
    }

    /// What it is, in a line; empty if the file does not say.
    pub fn about(&self) -> &str {
        match self {
            Self::Single(spec) => spec.about(),
            Self::Group(group) => &group.about,
        }
    }
}

/// Workloads that are run one after the other, each as a cell of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What the group is, in a line; empty if the file does not say.
    pub about: String,
    /// Where it was published.
    pub source: Option<String>,
    /// The members, in their order: at least one, none twice.
    pub members: Vec<Member>,
}

/// One member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The name of a workload in the catalog.
    pub name: String,
    /// Where the name stands in the group's text.
    pub span: Range<usize>,
}

impl Group {
    /// Each member that is none of the single workloads that `is_known` knows, as an error at its
    /// place. This room can't look names up.
    pub fn unknown_members(&self, is_known: impl Fn(&str) -> bool) -> Vec<SpecError> {
        let unknown = self.members.iter().filter(|member| !is_known(&member.name));
        unknown
            .map(|member| SpecError {
                span: member.span.clone(),
                message: format!("there is no workload named `{}`", member.name),
                help: Some(
                    "a group's members are names of single workloads; `iodyno catalog` lists them"
                        .to_owned(),
                ),
            })
            .collect()
    }

    pub(crate) fn from_raw(raw: RawSpec) -> Result<Self, Vec<SpecError>> {
        let mut reader = Reader::default();
        reader.schema(raw.schema.as_ref());
        let beside = [
            ("threads", raw.threads.map(|given| given.span())),
            ("depth", raw.depth.map(|given| given.span())),
            ("block", raw.block.map(|given| given.span())),
            ("align", raw.align.map(|given| given.span())),
            ("active", raw.active.map(|given| given.span())),
            ("mix", raw.mix.map(|given| given.span())),
            ("all", raw.all.map(|given| given.span())),
            ("read", raw.read.map(|given| given.span())),
            ("write", raw.write.map(|given| given.span())),
            ("trim", raw.trim.map(|given| given.span())),
            ("write_zeroes", raw.write_zeroes.map(|given| given.span())),
            ("arrivals", raw.arrivals.map(|given| given.span())),
            ("content", raw.content.map(|given| given.span())),
            ("limits", raw.limits.map(|given| given.span())),
        ];
        for (key, span) in beside {
            let Some(span) = span else { continue };
            let help = "a group has `schema`, `about`, `source` and `group` only; set this in its \
                        members, or by a flag for all of them";
            let message = format!("`{key}` means nothing in a group");
            reader.refuse(span, message, Some(help.to_owned()));
        }
        let mut members: Vec<Member> = Vec::new();
        if let Some(names) = raw.group {
            let span = names.span();
            let names = names.into_inner();
            if names.is_empty() || names.len() > MAX_MEMBERS {
                let message =
                    format!("a group has 1 to {MAX_MEMBERS} members, not {}", names.len());
                let help = "such as `group = [\"random-read\", \"random-write\"]`";
                reader.refuse(span, message, Some(help.to_owned()));
            }
            for name in names {
                let span = name.span();
                let name = name.into_inner();
                if members.iter().any(|member| member.name == name) {
                    reader.refuse(
                        span.clone(),
                        format!("`{name}` is a member already"),
                        Some("each member is one cell, and cells go by their names".to_owned()),
                    );
                }
                members.push(Member { name, span });
            }
        }
        if reader.errors.is_empty() {
            let about = raw.about.map(serde_spanned::Spanned::into_inner).unwrap_or_default();
            let source = raw.source.map(serde_spanned::Spanned::into_inner);
            return Ok(Self { about, source, members });
        }
        reader.errors.sort_by_key(|error| error.span.start);
        Err(reader.errors)
    }
}
