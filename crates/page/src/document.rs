//! The document: sections of blocks, in the order in which they are read.

use crate::{Figure, Table, Tone};

/// A document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// Lines below the title: test, target, time; each of a few words.
    pub about: Vec<String>,
    /// A stamp that must not be overlooked, on every page and figure: `NON-CONFORMANT`; may be empty.
    pub stamp: String,
    /// Its sections. The first is the first screen: it alone must not mislead.
    pub sections: Vec<Section>,
    /// Data that can be read back out of it.
    pub embedded: Vec<Embedded>,
    /// The program that made it, for its foot: name and version.
    pub made_by: String,
}

/// A section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// A name for links, unique in the document.
    pub id: String,
    /// Its heading.
    pub title: String,
    /// Its content.
    pub blocks: Vec<Block>,
    /// It is folded until the reader opens it: for data that few readers need. In print it is open.
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
    /// Text to be typed or stored unchanged: a command, a file.
    Code {
        /// Its caption.
        caption: String,
        /// The text.
        text: String,
    },
}

/// A number that comes first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    /// Its subject: the cell's name.
    pub name: String,
    /// The number with its unit.
    pub value: String,
    /// Its interval, or its certainty; may be empty.
    pub interval: String,
    /// Further facts: p99, n, conditions; each of a few words.
    pub beside: Vec<String>,
    /// Its tone.
    pub tone: Tone,
}

/// A verdict on the numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Its code, `STEADY_NOT_REACHED`; may be empty.
    pub code: String,
    /// Its gravity.
    pub tone: Tone,
    /// In plain words: problem, reason, remedy.
    pub text: String,
    /// Its cells; may be empty.
    pub of: Vec<String>,
}

/// Data inside the document that programs can read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// The id of its element: `iodyno-run-1`.
    pub id: String,
    /// Its media type: that of a data block, never of a script.
    pub media_type: String,
    /// The text, which must be JSON. The writer of the page escapes character sequences that would end the
    /// element.
    pub text: String,
}
