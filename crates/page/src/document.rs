//! A document: sections of blocks, in reading order.

use crate::{Figure, Table, Tone};

/// A document: title, sections and embedded data. It can be written as HTML, Markdown or CSV.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Main heading, and title of the browser window.
    pub title: String,
    /// Lines below the title: test, target, time; a few words each.
    pub about: Vec<String>,
    /// A prominent stamp on every page and figure, such as `NON-CONFORMANT`; may be empty.
    pub stamp: String,
    /// Sections. The first one fills the first screen: by itself it must not mislead.
    pub sections: Vec<Section>,
    /// Data in the page that programs can read back, such as runs.
    pub embedded: Vec<Embedded>,
    /// Name and version of the generating program, for the foot.
    pub made_by: String,
}

/// A titled part of a document, which links can lead to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Name for links, unique in the document.
    pub id: String,
    /// Heading, also used in the navigation.
    pub title: String,
    /// Content, in reading order.
    pub blocks: Vec<Block>,
    /// Collapsed until the reader opens it, for data that few readers need. Open in print.
    pub folded: bool,
}

/// One piece of a section's content.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a page has few blocks")]
pub enum Block {
    /// A paragraph. Parts between backquotes become code.
    Text(String),
    /// Headline numbers, side by side.
    Headlines(Vec<Headline>),
    /// Verdicts, the most severe first.
    Verdicts(Vec<Verdict>),
    /// A figure over the whole width.
    Figure(Figure),
    /// Small figures to compare, in a grid with equal axes.
    Gallery(Vec<Figure>),
    /// A table of its own, not the data behind a figure.
    Table(Table),
    /// Facts by topic: topic, then pairs of name and value.
    Facts(Vec<(String, Vec<(String, String)>)>),
    /// Verbatim text, such as a command or a file.
    Code {
        /// What the text is, shown above it; may be empty.
        caption: String,
        /// The text, shown as it is.
        text: String,
    },
}

/// A key number with its context, shown large.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Headline {
    /// Subject of the number, such as the name of a cell.
    pub name: String,
    /// Number with its unit.
    pub value: String,
    /// Confidence interval of the number, or another statement on its certainty; may be empty.
    pub interval: String,
    /// Further facts: p99, n, conditions; a few words each.
    pub beside: Vec<String>,
    /// Tone, shown as the colour and sign of the number.
    pub tone: Tone,
}

/// A finding that limits or confirms the validity of the numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// Code of the verdict, such as `STEADY_NOT_REACHED`; may be empty.
    pub code: String,
    /// Tone, which shows the severity.
    pub tone: Tone,
    /// Problem, reason and remedy, in plain words.
    pub text: String,
    /// Names of the cells concerned; may be empty.
    pub of: Vec<String>,
}

/// Data inside the document that programs can read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Embedded {
    /// Id of the element: `iodyno-run-1`.
    pub id: String,
    /// Media type: that of a data block, never of a script.
    pub media_type: String,
    /// JSON text. The page writer escapes character sequences that would end the element.
    pub text: String,
}
