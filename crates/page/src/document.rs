//! The document: sections of blocks, in the order in which they are read.

use crate::{Figure, Table, Tone};

/// A document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// Lines below the title: what, on what, when; each of a few words.
    pub about: Vec<String>,
    /// A stamp that must not be overlooked, on every page and figure: `NON-CONFORMANT`; may be empty.
    pub stamp: String,
    /// Its sections. The first is the first screen: a reader who stops there has the truth.
    pub sections: Vec<Section>,
    /// What can be read back out of it.
    pub embedded: Vec<Embedded>,
    /// Who made it, for its foot: program and version.
    pub made_by: String,
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// A name for links, unique in the document.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// What it holds.
    pub blocks: Vec<Block>,
    /// It is folded until somebody opens it: much data that few need. In print it is open.
    pub folded: bool,
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "there are as many as a page has parts")]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Headline numbers, side by side.
    Headlines(Vec<Headline>),
    /// Findings, the gravest first.
    Verdicts(Vec<Verdict>),
    /// A figure.
    Figure(Figure),
    /// Small figures to be compared, in a grid; their axes are the same.
    Gallery(Vec<Figure>),
    /// A table.
    Table(Table),
    /// Facts by topic: topic, then name and value.
    Facts(Vec<(String, Vec<(String, String)>)>),
    /// Something to be typed or kept as it is: a command, a file.
    Code {
        /// What it is.
        caption: String,
        /// The text.
        text: String,
    },
}

/// A number that comes first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    /// What it is of: the cell's name.
    pub name: String,
    /// The number with its unit.
    pub value: String,
    /// Its interval, or how sure it is; may be empty.
    pub interval: String,
    /// What else belongs to it: p99, n, conditions; each of a few words.
    pub beside: Vec<String>,
    /// How it is to be taken.
    pub tone: Tone,
}

/// A finding on the numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Its code, `STEADY_NOT_REACHED`; may be empty.
    pub code: String,
    /// How grave.
    pub tone: Tone,
    /// In plain words: what, why, how to mend it.
    pub text: String,
    /// Of which cells; may be empty.
    pub of: Vec<String>,
}

/// Data inside the document that programs can read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// The id of its element: `iodyno-run-1`.
    pub id: String,
    /// Its media type, which is that of a data block and never of a script.
    pub media_type: String,
    /// The text. What would end the element is escaped by who writes the page: it must be JSON.
    pub text: String,
}
