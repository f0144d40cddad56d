//! The content of a workload file: one workload, or a group of several to be run in sequence.

use core::ops::Range;

use iodyno_catalog::{FileError, Reader, Record};

use crate::spec::Spec;

/// Maximum number of workloads in a group.
const MAX_MEMBERS: usize = 64;

/// Content of a workload file: one workload or a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// The file describes one workload.
    Single(Box<Spec>),
    /// The file names several workloads, to be run in sequence.
    Group(Group),
}

impl Workload {
    /// One-line description of the workload; empty if the file has none.
    pub fn about(&self) -> &str {
        match self {
            Self::Single(spec) => spec.about(),
            Self::Group(group) => &group.about,
        }
    }
}

/// Workloads that are run in sequence, each as a cell of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// One-line description of the group; empty if the file has none.
    pub about: String,
    /// Publication that defines the group of workloads; None if unknown.
    pub source: Option<String>,
    /// The members, in order: at least one, without duplicates.
    pub members: Vec<Member>,
}

/// A member of a group: the name of a single workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of a workload in the catalog.
    pub name: String,
    /// Byte range of the name in the text of the group's file, for error messages.
    pub span: Range<usize>,
}

impl Group {
    /// Returns an error for each member that is not the name of a single workload according to `is_known`. The error
    /// has the member's position in the file. The caller looks up names, because this crate has no access to the
    /// catalog.
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
                let message = format!("`{key}` has no effect in a group");
                reader.refuse(entry.span.clone(), message, help);
            }
        }
        let names = record.items("group");
        if names.is_empty() || names.len() > MAX_MEMBERS {
            let message =
                format!("a group must have 1 to {MAX_MEMBERS} members, not {}", names.len());
            let help = "list its members, as in `group = [\"random-read\", \"random-write\"]`";
            reader.refuse(record.place("group"), message, help);
        }
        let mut members: Vec<Member> = Vec::new();
        for entry in names {
            let (name, span) = (entry.text().unwrap_or_default().to_owned(), entry.span.clone());
            if members.iter().any(|member| member.name == name) {
                let message = format!("`{name}` is already a member");
                let help = "each member is one cell, and names of cells must be unique";
                reader.refuse(span.clone(), message, help);
            }
            members.push(Member { name, span });
        }
        reader.finish()?;
        let about = record.text("about").unwrap_or_default().to_owned();
        Ok(Self { about, source: record.text("source").map(str::to_owned), members })
    }
}
