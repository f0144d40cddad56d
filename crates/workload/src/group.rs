//! The content of a workload file: one workload, or a group that names several to be run one after
//! the other.

use core::ops::Range;

use iodyno_catalog::{FileError, Reader, Record};

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
    /// A description of the workload, in a line; empty if the file has none.
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
    /// A description of the group, in a line; empty if the file has none.
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
    /// The position of the name in the group's text.
    pub span: Range<usize>,
}

impl Group {
    /// Each member that is not among the single workloads in `is_known`, as an error at its
    /// position. This crate can't look names up.
    pub fn unknown_members(&self, is_known: impl Fn(&str) -> bool) -> Vec<FileError> {
        let help = "a group's members are names of single workloads; `iodyno catalog` lists them";
        let unknown = self.members.iter().filter(|member| !is_known(&member.name));
        let error = |member: &Member| {
            let message = format!("there is no workload named `{}`", member.name);
            FileError::new(member.span.clone(), message).with_help(help)
        };
        unknown.map(error).collect()
    }

    pub(crate) fn read(mut reader: Reader, record: &Record) -> Result<Self, Vec<FileError>> {
        for (key, entry) in record.entries() {
            if !matches!(key, "schema" | "about" | "source" | "group") && !key.contains('.') {
                let help = "a group has `schema`, `about`, `source` and `group` only; set this in \
                            its members, or by a flag for all of them";
                let message = format!("`{key}` means nothing in a group");
                reader.refuse(entry.span.clone(), message, help);
            }
        }
        let names = record.items("group");
        if names.is_empty() || names.len() > MAX_MEMBERS {
            let message = format!("a group has 1 to {MAX_MEMBERS} members, not {}", names.len());
            let help = "such as `group = [\"random-read\", \"random-write\"]`";
            reader.refuse(record.place("group"), message, help);
        }
        let mut members: Vec<Member> = Vec::new();
        for entry in names {
            let (name, span) = (entry.text().unwrap_or_default().to_owned(), entry.span.clone());
            if members.iter().any(|member| member.name == name) {
                let message = format!("`{name}` is a member already");
                let help = "each member is one cell, and cells go by their names";
                reader.refuse(span.clone(), message, help);
            }
            members.push(Member { name, span });
        }
        reader.finish()?;
        let about = record.text("about").unwrap_or_default().to_owned();
        Ok(Self { about, source: record.text("source").map(str::to_owned), members })
    }
}
